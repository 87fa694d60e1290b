"""double.py: run the program against the double of CUDA's libraries (tests/doubles/world.h), and see what was left.

    double = Double(total='1GiB', context='64MiB')
    done = double.calibrate('--quick')
    done.figures['context'] == 64 * MiB
"""
import json
import os
import pathlib
import re
import resource
import struct
import subprocess
import tempfile

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get('PLIMSOLL', '')
LIBRARIES = os.environ.get('PLM_DOUBLES', '')
CALLS = [name for table in ('cuda_calls.def', 'library_calls.def')
         for name in re.findall(r'^CALL\(\w+,\s*\w+,[^,]*,\s*\w+,\s*(\w+),', (ROOT / 'src/device' / table).read_text(), re.M)]
PROCESSES, DEVICES = 64, 4
KINDS = ['contexts', 'blocks', 'host_blocks', 'modules', 'events', 'mappings', 'pooled', 'managed', 'lost']
# so small that a run takes a moment
SMALL = {'total': '1GiB', 'context': '64MiB', 'module': '2MiB'}


class Done:
    """What a run came to."""

    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.report = json.loads(done.stdout) if done.stdout.startswith('{') else None

    def all(self, name):
        return [f for f in self.report['figures'] if f['name'] == name]

    def figure(self, name, size=0):
        found = [f for f in self.all(name) if f['size'] == size]
        assert len(found) == 1, f'{name} of size {size}: {found}'
        return found[0]

    def value(self, name, size=0):
        return self.figure(name, size)['value']


class Double:
    """A folder with settings, state and profiles; keyword arguments are settings, `lines` more of them."""

    def __init__(self, lines=(), **settings):
        self.own = tempfile.TemporaryDirectory(prefix='plimsoll-double-')
        self.folder = pathlib.Path(self.own.name)
        self.state = self.folder / 'state'
        self.set(lines, **settings)

    def set(self, lines=(), **settings):
        settings = {**SMALL, **settings}
        text = [f'state {self.state}', *(f'{key} {value}' for key, value in settings.items()), *lines]
        (self.folder / 'settings').write_text('\n'.join(text) + '\n')
        if not (self.folder / 'nvml').exists():
            self.set_nvml()

    def set_nvml(self, *lines, driver='580.65.06', uuid='GPU-d0b1e000-0000-0000-0000-000000000000'):
        """NVML has a double of its own (tests/doubles/nvml.c), with its own settings."""
        text = [f'driver {driver}', 'gpu NVIDIA Double', f'uuid {uuid}', *lines]
        (self.folder / 'nvml').write_text('\n'.join(text) + '\n')

    def environment(self, **more):
        keep = {k: v for k, v in os.environ.items() if k.startswith(('ASAN', 'UBSAN')) or k == 'PATH'}
        libraries = os.pathsep.join(p for p in (LIBRARIES, more.pop('libraries', '')) if p)
        return {**keep, 'LC_ALL': 'C', 'LD_LIBRARY_PATH': libraries, 'PLM_DOUBLE': str(self.folder / 'settings'),
                'PLM_DOUBLE_NVML': str(self.folder / 'nvml'),
                'XDG_CONFIG_HOME': str(self.folder / 'config'), **more}

    def start(self, *args, room=resource.RLIM_INFINITY, **more):
        """`room` is the most bytes of a file that it may write."""
        self.state.unlink(missing_ok=True)
        return subprocess.Popen([PROGRAM, *args], env=self.environment(**more), text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, start_new_session=True,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY)))

    def run(self, *args, timeout=120, **more):
        child = self.start(*args, **more)
        out, err = child.communicate(timeout=timeout)
        return Done(subprocess.CompletedProcess(args, child.returncode, out, err))

    def calibrate(self, *args, **more):
        return self.run('calibrate', '--json', *args, **more)

    def profiles(self):
        """Every file below the configuration's folder, also those that should not be there."""
        return sorted(p for p in (self.folder / 'config').rglob('*') if p.is_file())

    def read_state(self):
        data = self.state.read_bytes()
        at = len(CALLS) * 8
        calls = dict(zip(CALLS, struct.unpack_from(f'{len(CALLS)}Q', data)))
        at += 8  # others
        processes = []
        for i in range(PROCESSES):
            fields = struct.unpack_from(f'q{DEVICES}QQ{len(KINDS)}q', data, at)
            at += 8 * (2 + DEVICES + len(KINDS))
            if fields[0]:
                processes.append({'pid': fields[0], 'used': sum(fields[1:1 + DEVICES]), 'most': fields[1 + DEVICES],
                                  **dict(zip(KINDS, fields[2 + DEVICES:]))})
        assert at == len(data), 'the state file is not as world.h has it'
        return calls, processes

    def calls(self):
        return self.read_state()[0]

    def left(self):
        """What processes did not give back themselves: [(pid, kind, number)]."""
        return [(p['pid'], kind, p[kind]) for p in self.read_state()[1] for kind in ['used', *KINDS] if p[kind]]

    def alive(self):
        """Processes of the last run that are still there."""
        pids = []
        for p in self.read_state()[1] if self.state.exists() else []:
            try:
                stat = pathlib.Path(f"/proc/{p['pid']}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if stat.rsplit(')', 1)[1].split()[0] != 'Z':  # ended, and only not yet waited for
                pids.append(p['pid'])
        return pids
