#!/usr/bin/env python3
"""test-watch.py PLIMSOLL DOUBLES NVML.DEF: plimsoll watch against the double of NVML, as a user meets it (TAP)."""
import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

plimsoll, doubles, calls = sys.argv[1:4]
MIB, GIB = 1 << 20, 1 << 30
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
count = failed = 0
A100 = 'gpu NVIDIA A100-SXM4-80GB\ntotal 80GiB\nreserved 512MiB\n'
FAST = ['--interval', '0.02']


def check(good, what, detail=''):
    global count, failed
    count += 1
    failed += not good
    print(f'{"ok" if good else "not ok"} {count} - {what}')
    if not good and detail:
        print('\n'.join('# ' + line for line in str(detail).splitlines()[-12:]))


def surroundings(scenario, double=''):
    with open('scenario', 'w') as file:
        file.write(scenario)
    environment = dict(os.environ, PLM_DOUBLE_NVML='scenario', LC_ALL='C.UTF-8', LD_LIBRARY_PATH=os.path.join(doubles, double))
    environment.pop('NO_COLOR', None)
    return environment


def watch(scenario, *words, double=''):
    return subprocess.run([plimsoll, 'watch', *words], env=surroundings(scenario, double), text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=60)


def seen(scenario, *words, double=''):
    """The same with --json; returns what was run and the document."""
    if os.path.exists('out.json'):
        os.unlink('out.json')
    run = watch(scenario, *FAST, '-o', 'out.json', *words, double=double)
    try:
        with open('out.json') as file:
            return run, json.load(file)
    except (OSError, ValueError) as error:
        check(False, f'a document of {words}', f'{error}\n{run.stderr}')
        return run, None


def says(run, text):
    check(text in run.stderr, f'says {text}', run.stderr)


def ends(run, status, what):
    check(run.returncode == status, f'status {status}: {what}', f'{run.returncode}\n{run.stderr}')


# ------------------------------------------------------------------ the truth that the double was given

run, got = seen(A100 + 'process 1 2GiB\nprocess child 0*4,1GiB,+1GiB*5,4GiB\n', '--plan', '7GiB', '--', 'sleep', '0.6')
ends(run, 0, 'sleep')
gpu = got['gpus'][0]
points = gpu['points']
check(gpu['basis'] == 'processes' and gpu['basis_reason'] is None, 'the driver tells of processes')
check(gpu['total_bytes'] == 80 * GIB and gpu['driver_bytes'] == 512 * MIB, 'total and the driver\'s own')
check([p['job_bytes'] // GIB for p in points[3:11]] == [1, 2, 3, 4, 5, 6, 4, 4], 'the job\'s series', points[:12])
check(gpu['peak_bytes'] == 6 * GIB and points[8]['seconds'] == gpu['peak_seconds'], 'its peak and when')
check(all(p['used_bytes'] == p['job_bytes'] + 2 * GIB for p in points[:-1]), 'another process is in use and not the job\'s')
check(all(p['free_bytes'] == 79.5 * GIB - p['used_bytes'] for p in points), 'free is what is left')
check(gpu['plan_less_peak_bytes'] == GIB and gpu['used_peak_bytes'] == 8 * GIB and gpu['free_low_bytes'] == 71.5 * GIB, 'the sums')
check(got['driver'] == '580.65.06' and gpu['ecc'] is False and gpu['compute_mode'] == 'default', 'driver, ECC, compute mode')
check(got['samples'] == len(points) and got['failed_samples'] == 0, 'every sample is there')
says(run, "plan               7.00 GiB  1.00 GiB more than it took (16.7 %)")
says(run, 'sleep 0.6: watched for 0.')

run = watch(A100 + 'process child 1GiB\n', '--interval', '60', '--', 'sleep', '0.2')
says(run, 'Not known: it ended before it was looked at; a shorter --interval sees more.')
check('no GPU memory' not in run.stderr, 'and nothing is made up')
run, got = seen(A100 + 'process child 1GiB\nprocess grandchild 2GiB\n', '--', 'sh', '-c', 'sleep 0.3; true')
check(got['gpus'][0]['peak_bytes'] == 3 * GIB, 'a child of the command is counted too')
run, got = seen(A100 + 'process 1 2GiB\n', '--', 'sleep', '0.1')
check(got['gpus'][0]['peak_bytes'] == 0, 'nothing of others is counted')
says(run, 'It took no GPU memory')
run, got = seen(A100 + 'process child 1GiB\n' + A100 + 'process child 5GiB\ntold yes\n' + A100, '--', 'sleep', '0.1')
check([g['peak_bytes'] // GIB for g in got['gpus']] == [1, 5, 0], 'each GPU by itself')
says(run, 'GPU 1 NVIDIA')
check('GPU 2' not in run.stderr, 'a GPU that was not used is not shown')
run, got = seen(A100 + 'ecc 1\ncompute_mode 3\nprocess child 1GiB\n', '--', 'true')
check(got['gpus'][0]['ecc'] is True and got['gpus'][0]['compute_mode'] == 'exclusive', 'ECC, exclusive')
many = ''.join(f'process {i} 1MiB\n' for i in range(1, 16))
run, got = seen(A100 + many + 'process child 1GiB\n', '--', 'sleep', '0.1')
check(got['gpus'][0]['peak_bytes'] == GIB, 'among many processes')

run = watch(A100 + 'process child 1GiB\n', *FAST, '-o', 'out.csv', '--plan', '2GiB', '--', 'sleep', '0.2')
rows = list(csv.DictReader(open('out.csv')))
check(len(rows) > 5 and rows[-2]['job_bytes'] == str(GIB) and rows[0]['job_bytes'] == '0', 'CSV holds the series', rows)
check(all(r['plan_bytes'] == str(2 * GIB) and r['basis'] == 'processes' for r in rows), 'CSV holds the plan')

# ------------------------------------------------------------------ the command is run as if alone

for status in (0, 1, 3, 42):
    ends(watch(A100, '--', 'sh', '-c', f'exit {status}'), status, 'the command\'s own')
run, got = seen(A100, '--', 'sh', '-c', 'kill -KILL $$')
ends(run, 137, 'killed')
check(got['end'] == 'killed' and got['signal'] == 9 and got['exit_status'] is None, 'killed, in the document')
run = watch(A100, '--', 'no-such-program')
ends(run, 127, 'no such program')
says(run, "cannot run 'no-such-program': No such file")
ends(watch(A100, '--', '/etc/passwd'), 126, 'no program')
run = watch(A100, '--', 'sh', '-c', 'echo out; echo err >&2; cat')
check(run.stdout == 'out\n', 'standard output is the command\'s', run.stdout)
check(run.stderr.startswith('err\n'), 'standard error comes through', run.stderr)
run = watch(A100, '--', 'sh', '-c', 'trap "" USR1; ulimit -f 1; head -c 2000000 /dev/zero >large')
check(run.returncode != 0 and os.path.getsize('large') < 4096, 'SIGXFSZ has its usual effect on the command')
check(watch(A100, '--', 'printf', '%s|', '--', '--json', 'a b').stdout == '--|--json|a b|', 'its arguments are its own')

# ------------------------------------------------------------------ the driver does not tell

for told, why in (('no', 'Not Supported'), ('unknown', 'without their memory')):
    run, got = seen(A100 + f'told {told}\nprocess 1 2GiB\nprocess child 3GiB\n', '--', 'sleep', '0.2')
    gpu = got['gpus'][0]
    check(gpu['basis'] == 'growth' and why in gpu['basis_reason'], f'told {told}: growth', gpu['basis_reason'])
    check(gpu['peak_bytes'] == 3 * GIB, 'what the device had before does not count')
    says(run, 'does not tell')
run, got = seen(A100 + 'hidden child 3GiB\nhidden 1 2GiB\n', '--', 'sleep', '0.2')
check(got['gpus'][0]['basis'] == 'growth' and 'container' in got['gpus'][0]['basis_reason'], 'hidden, as in a container')
check(got['gpus'][0]['peak_bytes'] == 3 * GIB, 'its growth')
run, got = seen(A100 + 'process 4194303 0*2,3GiB\nprocess 1 2GiB\n', '--', 'sleep', '0.2')
check(got['gpus'][0]['basis'] == 'growth' and got['gpus'][0]['peak_bytes'] == 3 * GIB, 'listed by a number that means nothing here')
run, got = seen(A100 + 'hidden 1 2GiB*4,2080MiB\n', '--', 'sleep', '0.2')
check(got['gpus'][0]['basis'] == 'processes' and got['gpus'][0]['peak_bytes'] == 0, 'a little more that nobody is listed for is no job')
sleeper = subprocess.Popen(['sleep', '0.4'])
run, got = seen(A100 + f'told no\nprocess {sleeper.pid} 3GiB\nprocess 1 1GiB\n', '--pid', str(sleeper.pid))
sleeper.wait()
check(got['gpus'][0]['basis'] == 'device' and got['gpus'][0]['peak_bytes'] == 4 * GIB, 'of a process that ran before: the device\'s')

# ------------------------------------------------------------------ MIG, old drivers, none

mig = 'gpu NVIDIA A100\ntotal 80GiB\nslice NVIDIA A100 MIG 3g.40gb\ntotal 40GiB\nprocess child 1GiB\nslice NVIDIA A100 MIG 1g.10gb\ntotal 10GiB\n'
run, got = seen(mig + A100, '--', 'sleep', '0.1')
check([g['gpu'] for g in got['gpus']] == ['0:0', '0:1', '1'], 'slices stand for the GPU that is cut')
check(got['gpus'][0]['total_bytes'] == 40 * GIB and got['gpus'][0]['peak_bytes'] == GIB, 'a slice\'s own figures')
for name, ids in (('0', ['0:0', '0:1']), ('0:1', ['0:1']), ('GPU-3', ['1']), ('MIG-1', ['0:0'])):
    run, got = seen(mig + A100, '--gpu-id', name, '--', 'true')
    check([g['gpu'] for g in got['gpus']] == ids, f'--gpu-id {name}')
run = watch(mig + A100, '--gpu-id', '5', '--', 'touch', 'started')
ends(run, 2, '--gpu-id 5')
says(run, "there is no GPU '5'; accepted: 0:0 (MIG-1), 0:1 (MIG-2), 1 (GPU-3)")

run, got = seen(A100 + many + 'process child 1GiB\n', '--', 'sleep', '0.1', double='old')
check(got['gpus'][0]['peak_bytes'] == GIB and got['gpus'][0]['ecc'] is None, 'an old driver\'s forms')
check(got['gpus'][0]['driver_bytes'] == 0, 'an old driver does not tell its own part')
run = watch(A100, '--', 'touch', 'started', double='broken')
ends(run, 3, 'a missing function')
says(run, 'libnvidia-ml.so.1 has no nvmlDeviceGetMemoryInfo')
run = watch(A100, '--', 'touch', 'started', double='nothing')
ends(run, 3, 'no driver')
says(run, 'no usable GPU: libnvidia-ml.so.1, which comes with NVIDIA\'s driver, is not installed')
os.mkdir('fake')
open('fake/libnvidia-ml.so.1', 'w').write('no library')
run = watch(A100, '--', 'touch', 'started', double=os.path.abspath('fake'))
ends(run, 3, 'no library')
says(run, 'cannot be loaded')
run = watch('driver 1\n', '--', 'touch', 'started')
ends(run, 3, 'no GPU')
says(run, 'no usable GPU')

# ------------------------------------------------------------------ every call fails

symbols = re.findall(r'^NVML_CALL\(\w+, (\w+),', open(calls).read(), re.M)
needed = ['nvmlInit_v2', 'nvmlSystemGetDriverVersion', 'nvmlDeviceGetCount_v2', 'nvmlDeviceGetHandleByIndex_v2',
          'nvmlDeviceGetName', 'nvmlDeviceGetUUID']
check(len(symbols) > 10 and set(needed) < set(symbols), f'{len(symbols)} functions')
for symbol in symbols:
    run = watch(A100 + f'process child 1GiB\nfrom {symbol} 1 999\n', *FAST, '--', 'sh', '-c', 'touch started; exit 5')
    started = os.path.exists('started')
    if started:
        os.unlink('started')
    if symbol in needed:
        check(run.returncode == 3 and not started and "Double's Error 999" in run.stderr, f'{symbol} fails: 3, not started',
              f'{run.returncode} {run.stderr}')
    elif 'Running' in symbol:
        check(run.returncode == 3 and not started and 'which processes use it' in run.stderr, f'{symbol} fails: 3, not started',
              f'{run.returncode} {run.stderr}')
    else:
        check(run.returncode == 5 and started, f'{symbol} fails: the command runs', f'{run.returncode} {run.stderr}')
    for nth in (2, 3, 4):
        run, got = seen(A100 + f'process child 1GiB\nfail {symbol} {nth} 15\n', '--', 'sh', '-c', 'sleep 0.15; exit 5')
        check(run.returncode == 5 and got['samples'] > got['failed_samples'], f'{symbol} fails once, call {nth}', run.stderr)
both = 'from nvmlDeviceGetMemoryInfo 3 15\nfrom nvmlDeviceGetMemoryInfo_v2 3 15\n'
run, got = seen(A100 + 'process child 1GiB\n' + both, '--', 'sh', '-c', 'sleep 0.2; exit 5')
ends(run, 5, 'the GPU is lost')
check(got['failed_samples'] > 2 and got['samples'] > got['failed_samples'] and 'Error 15' in got['failure'], 'and the rest is kept')
says(run, 'the job is not disturbed')
check(run.stderr.count('the job is not disturbed') == 1, 'once')
says(run, 'samples are missing')
for code, words in ((9, 'not loaded'), (4, 'may not talk'), (18, 'two versions')):
    run = watch(A100 + f'from nvmlInit_v2 1 {code}\n', '--', 'touch', 'started')
    ends(run, 3, f'nvmlInit gives {code}')
    says(run, words)
check(not os.path.exists('started'), 'no command was started')
run, got = seen(A100 + A100 + 'process child 1GiB\nfail nvmlDeviceGetHandleByIndex_v2 1 4\n', '--', 'sleep', '0.1')
check([g['gpu'] for g in got['gpus']] == ['1'], 'a GPU that this user may not see is left out')

# ------------------------------------------------------------------ a driver that is slow

begin = time.monotonic()
run, got = seen(A100 + 'process child 1GiB\ndelay nvmlDeviceGetMemoryInfo_v2 0.2\n', '--', 'sh', '-c', 'sleep 0.5; exit 5')
ends(run, 5, 'a slow driver')
check(time.monotonic() - begin < 3 and 2 <= got['samples'] <= 6, 'samples that were missed are not made up for', got['samples'])

# ------------------------------------------------------------------ interruption

CATCH = 'import signal,sys,time,os\nseen=[]\nfor s in (2,15,1,10): signal.signal(s,lambda n,f: seen.append(n))\nopen("ready","w")\n' \
        'end=time.time()+0.5\nwhile time.time()<end: time.sleep(0.05)\nprint(seen)\nsys.exit(9)\n'


def wait_for(name):
    end = time.monotonic() + 10
    while not os.path.exists(name) and time.monotonic() < end:
        time.sleep(0.01)


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    for name in ('ready', 'out.json'):
        if os.path.exists(name):
            os.unlink(name)
    process = subprocess.Popen([plimsoll, 'watch', *FAST, '-o', 'out.json', '--', sys.executable, '-c', CATCH], text=True,
                               env=surroundings(A100 + 'process child 1GiB\n'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for('ready')
    check(not os.path.exists('out.json'), 'nothing is written before the end')
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    check(out == f'[{int(number)}]\n', f'{number.name} is passed on, once', out + err)
    check(process.returncode == 9, 'the command decides how it ends', process.returncode)
    check(json.load(open('out.json'))['gpus'][0]['peak_bytes'] == GIB, 'and what was seen is written')

os.unlink('ready')
script = os.path.abspath('catch.py')
open(script, 'w').write(CATCH)
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(surroundings(A100 + 'process child 1GiB\n'), TERM='xterm')
    os.execv(plimsoll, [plimsoll, 'watch', *FAST, '--plan', '2GiB', '--', sys.executable, script])
import fcntl, struct, termios  # noqa: E401
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
os.kill(pid, signal.SIGWINCH)
wait_for('ready')
os.write(terminal, b'\x03')
text = b''
try:
    while chunk := os.read(terminal, 65536):
        text += chunk
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
check(b'[2]' in text and status == 9, 'Ctrl-C reaches the command once', text[-300:])
check(b'\x1b[1;22r' in text and b'\x1b[r' in text, 'the terminal\'s last lines are kept, and given back', text[-300:])
check('┤'.encode() in text and b'plan' in text, 'a drawing on a terminal')

sleeper = subprocess.Popen(['sleep', '30'])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    process = subprocess.Popen([plimsoll, 'watch', *FAST, '-o', 'out.json', '--pid', str(sleeper.pid)], text=True,
                               env=surroundings(A100 + f'process {sleeper.pid} 1GiB\n'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    got = json.load(open('out.json'))
    check(process.returncode == 0 and got['end'] == 'runs' and got['gpus'][0]['peak_bytes'] == GIB, f'{number.name} ends a watch', err)
    check('it goes on' in out, 'and the process goes on', out)
check(sleeper.poll() is None, 'the process is not touched')
sleeper.kill()
sleeper.wait()
run = watch(A100, '--pid', str(sleeper.pid))
ends(run, 2, 'no such process')
says(run, f'there is no process {sleeper.pid}')
sleeper = subprocess.Popen(['sleep', '0.3'])
run = watch(A100 + f'process {sleeper.pid} 1GiB\n', *FAST, '--pid', str(sleeper.pid), '--json')
sleeper.wait()
got = json.loads(run.stdout)
check(run.returncode == 0 and got['end'] == 'ended' and got['gpus'][0]['peak_bytes'] == GIB, 'a watch ends with its process')

# ------------------------------------------------------------------ leaks, and what is said meanwhile

def judged(scenario, seconds):
    """With samples so close that a busy machine may miss some: what is too little then is watched again."""
    for _ in range(5):
        run, got = seen(A100 + scenario, '--interval', '0.01', '--', 'sleep', seconds)
        trend = got['gpus'][0]['trend']
        if trend and got['samples'] > 80 * float(seconds):
            break
    return run, trend or dict.fromkeys(('leak', 'p', 'found_seconds', 'bytes_per_second_low', 'bytes_per_second_high'), 0)


run, trend = judged('process child 0,2GiB,+2MiB*1000\n', '2.5')
check(trend['leak'] is True and trend['p'] < 0.001, 'a leak', trend)
check(trend['bytes_per_second_low'] <= 200 * MIB * 1.2 and trend['bytes_per_second_high'] >= 200 * MIB * 0.6, 'its slope', trend)
says(run, 'memory leaks: what the job falls back to grows by')
says(run, 'Leaks: what it falls back to grows by')
says(run, 'the GPU is full in')
run, trend = judged('process child 0,2GiB,+2MiB*130\n', '4')
check(trend['leak'] is False and 0.9 < (trend['found_seconds'] or 0) < 2.5, 'a leak that has ended', trend)
says(run, 'memory leaks: what the job falls back to grows by')
says(run, 'Looked like a leak at ')
run, trend = judged('process child 0,2GiB*9,' + '2GiB,+64MiB*9,' * 40 + '2GiB\n', '2.5')
check(trend['leak'] is False and 'leak' not in run.stderr, 'a saw-tooth', trend)
run, trend = judged('process child 0,+512MiB*10,5GiB\n', '2.5')
check(trend['leak'] is False and 'leak' not in run.stderr, 'warming up')

run = watch(A100 + 'process child 0,78GiB\n', *FAST, '--', 'sleep', '0.2')
says(run, 'warning: GPU 0: 1.50 GiB is free, less than the margin of 4.00 GiB')
check(run.stderr.count('is free') == 1, 'once')
run = watch((A100 + 'process child 0,78GiB\n') * 2, *FAST, '--plan', '2GiB', '--', 'sleep', '0.2')
for gpu in '01':
    says(run, f'warning: GPU {gpu}: 1.50 GiB is free, less than the margin of 4.00 GiB')
    says(run, f'warning: GPU {gpu}: the job takes 78.00 GiB, more than the plan')
check(run.stderr.count('warning') == 4, 'each once for each GPU', run.stderr)
run = watch(A100 + 'process child 0,78GiB\n', *FAST, '--margin', '1GiB', '--', 'sleep', '0.2')
check('warning' not in run.stderr, '--margin', run.stderr)
run = watch(A100 + 'process child 0,3GiB\n', *FAST, '--plan', '2GiB', '--', 'sleep', '0.2')
says(run, 'warning: GPU 0: the job takes 3.00 GiB, more than the plan\'s 2.00 GiB')
says(run, '1.00 GiB less than it took (33.3 %)')

# ------------------------------------------------------------------ the plan's line

def plimsoll_json(*words):
    return json.loads(subprocess.run([plimsoll, *words, '--json'], text=True, capture_output=True, check=True).stdout)


estimate = plimsoll_json('estimate', 'gpt2', '--batch', '2', '--seq', '256', '--device', 'a100-80')
run, got = seen(A100 + 'process child 1GiB\n', 'gpt2', '--batch', '2', '--seq', '256', '--', 'sleep', '0.1')
check(got['plan']['device_bytes'] == estimate['peak']['device_bytes'], 'a model\'s plan, by the profile with the GPU\'s name')
check(got['plan']['source'] == 'gpt2, batch 2' and not got['plan']['without_context'], 'and its name')
run, got = seen('gpu Unknown\nprocess child 1GiB\n', 'gpt2', '--batch', '2', '--seq', '256', '--', 'sleep', '0.1')
check(got['plan']['device_bytes'] == estimate['peak']['reserved_bytes'] and got['plan']['without_context'], 'without a profile: reserved memory')
says(run, 'without a CUDA context')
with open('cuda', 'w') as file:
    file.write('state state\nname NVIDIA A100-SXM4-80GB\nuuid 000102030405060708090a0b0c0d0e0f\ntotal 80GiB\ncontext 777MiB\n')
own = dict(XDG_CONFIG_HOME=os.path.abspath('config'), PLM_DOUBLE=os.path.abspath('cuda'))
calibrated = subprocess.run([plimsoll, 'calibrate', '--quick'], env=dict(surroundings(A100), **own), text=True, capture_output=True)
check(calibrated.returncode == 0, 'a profile that was measured', calibrated.stderr)
for uuid, source in (('GPU-00010203-0405-0607-0809-0a0b0c0d0e0f', 777), ('GPU-other', estimate['context_bytes'] // MIB)):
    subprocess.run([plimsoll, 'watch', 'gpt2', '--batch', '2', '--seq', '256', '-o', 'out.json', '--', 'true'],
                   env=dict(surroundings(A100 + f'uuid {uuid}\n'), **own), capture_output=True)
    got = json.load(open('out.json'))
    context = (got['plan']['device_bytes'] - estimate['peak']['reserved_bytes']) // MIB
    check(context >= 777 if source == 777 else context == source, f'the profile of {uuid}', context)
json.dump(estimate, open('plan.json', 'w'))
run, got = seen(A100, '--plan', 'plan.json', '--', 'true')
check(got['plan']['device_bytes'] == estimate['peak']['device_bytes'] and got['plan']['source'] == 'plan.json', 'a file\'s plan')
plan = plimsoll_json('plan', 'gpt2', '--seq', '256', '--device', 't4', '--max-batch', '4')
json.dump(plan, open('plan.json', 'w'))
run, got = seen(A100, '--plan', 'plan.json', '--', 'true')
check(got['plan']['device_bytes'] == plan['peak']['device_bytes'], 'what plan --json wrote')
table = plimsoll_json('compare', 'mlp', '--vary', 'batch=4,8')
json.dump(table, open('table.json', 'w'))
run = watch(A100, '--plan', 'table.json', '--', 'touch', 'started')
ends(run, 2, 'two plans')
says(run, 'holds 2 strategies')
run, got = seen(A100, 'resnet18', '--batch', '8', '--', 'true')
check(got['plan']['low_bytes'] <= got['plan']['device_bytes'] <= got['plan']['high_bytes'], 'a range')

# ------------------------------------------------------------------ refusals

for words, text in (
        ((), 'needs --pid P or -- COMMAND'),
        (('--',), 'needs --pid P or -- COMMAND'),
        (('--pid', '1', '--', 'true'), 'do not go together'),
        (('--pid', '0'), "--pid: '0' is not accepted"),
        (('--pid', 'x'), "--pid: 'x' is not accepted"),
        (('mlp', '--plan', '1GiB', '--', 'true'), 'MODEL and --plan do not go together'),
        (('mlp', 'mlp', '--', 'true'), "unexpected argument 'mlp'"),
        (('--batch', '4', '--', 'true'), 'need a MODEL'),
        (('--device', 't4', '--', 'true'), 'need a MODEL'),
        (('--precision', 'fp32', '--', 'true'), 'need a MODEL'),
        (('--deepspeed', 'none.json', '--', 'true'), 'need a MODEL'),
        (('--cudnn', 'off', '--plan', '1GiB', '--', 'true'), 'need a MODEL'),
        (('--json', '--', 'true'), 'need -o FILE'),
        (('-o', 'out.txt', '--', 'true'), 'accepted endings: .json, .csv'),
        (('-o', 'no/such/out.csv', '--', 'touch', 'started'), "cannot create 'no/such/out.csv'"),
        (('--csv', '-o', '.', '--', 'touch', 'started'), "cannot create '.'"),
        (('mlp', '--device', 'local:x', '--', 'touch', 'started'), 'local:N'),
        (('mlp', '--tp', '3', '--', 'touch', 'started'), ''),
        (('--interval', '0.001', '--', 'true'), 'from 0.01 to 3600'),
        (('--interval', '0', '--', 'true'), '--interval'),
        (('--interval', '4000', '--', 'true'), 'from 0.01 to 3600'),
        (('--plan', '0', '--', 'true'), '0 is not accepted'),
        (('--plan', 'missing.json', '--', 'touch', 'started'), 'missing.json'),
        (('no-such-model', '--', 'touch', 'started'), 'no-such-model'),
        (('mlp', '--precision', 'bf15', '--', 'true'), "did you mean 'bf16'?"),
        (('true',), 'needs --pid P or -- COMMAND')):
    run = watch(A100, *words)
    check(run.returncode == 2 and text in run.stderr and run.stdout == '', f'refuses {" ".join(words)}', f'{run.returncode} {run.stderr}')
    run = watch(A100, *words, double='nothing')
    check(run.returncode == 2 and text in run.stderr, f'also without a GPU: {" ".join(words)}', f'{run.returncode} {run.stderr}')
check(not os.path.exists('started'), 'no command was started')
if os.path.exists('/dev/full'):
    run = watch(A100, '--csv', '-o', '/dev/full', '--', 'true')
    ends(run, 3, 'the disk is full after a command that ended well')
    run = watch(A100, '--csv', '-o', '/dev/full', '--', 'sh', '-c', 'exit 4')
    ends(run, 4, 'the command\'s own trouble counts for more')

print(f'1..{count}')
sys.exit(1 if failed else 0)
