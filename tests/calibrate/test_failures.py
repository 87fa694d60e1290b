#!/usr/bin/env python3
"""test_failures.py: no driver, no device, every call that fails, hangs or dies; always a plain message, status 3 and no profile."""
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import double as doubles
from double import CALLS, Double

MESSAGE = re.compile(r'^plimsoll: [^\n]+\n$')


class Failures(unittest.TestCase):
    def fails(self, double, done, *words):
        """The promise: status 3, one line that says why, nothing on standard output, no file, nothing held."""
        self.assertEqual(done.status, 3, f'{done.err}{done.out}')
        self.assertEqual(done.out, '')
        self.assertRegex(done.err, MESSAGE)
        for word in words:
            self.assertIn(word, done.err)
        self.assertEqual(double.profiles(), [])
        self.assertEqual(double.alive(), [])

    # -------------------------------------------------------------- what a machine may lack

    def test_no_driver(self):
        double = Double()
        done = double.calibrate('--quick', LD_LIBRARY_PATH='')
        if done.status == 0 or 'no NVIDIA driver' not in done.err:
            self.skipTest('there is a driver here')
        self.fails(double, done, 'no usable CUDA device', 'libcuda.so.1')

    def test_a_driver_without_a_runtime(self):
        """Only where no runtime is installed either; otherwise that one is found."""
        double = Double()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(f'{doubles.LIBRARIES.split(os.pathsep)[-1]}/libcuda.so.1', folder)
            done = double.calibrate('--quick', LD_LIBRARY_PATH=folder)
        if 'libcudart' in done.err:
            self.fails(double, done, 'no CUDA runtime library was found')
        else:
            self.fails(double, done)  # the real runtime does not know the double's driver

    def test_a_library_that_lacks_a_function(self):
        double = Double()
        with tempfile.TemporaryDirectory() as folder:
            libc = next(p for p in ('/lib/x86_64-linux-gnu/libm.so.6', '/lib64/libm.so.6', '/usr/lib/libm.so.6',
                                    '/lib/aarch64-linux-gnu/libm.so.6') if os.path.exists(p))
            shutil.copy(libc, pathlib.Path(folder) / 'libcuda.so.1')
            done = double.calibrate('--quick', LD_LIBRARY_PATH=folder)
        self.fails(double, done, 'libcuda.so.1 has no cu')

    def test_a_driver_that_is_too_old(self):
        double = Double(driver=12080, runtime=13000)
        self.fails(double, double.calibrate('--quick'), 'the NVIDIA driver is too old', '12.8', '13.0')

    def test_no_device(self):
        double = Double(devices=0)
        self.fails(double, double.calibrate('--quick'), 'no GPU')

    def test_a_device_that_is_not_there(self):
        double = Double(devices=2)
        self.fails(double, double.calibrate('--quick', '--device', '2'), 'no device 2')

    def test_a_gpu_that_shares_the_hosts_memory(self):
        double = Double(integrated=1)
        self.fails(double, double.calibrate('--quick'), 'no memory of its own')

    def test_a_busy_device(self):
        double = Double(compute_mode=2)
        self.fails(double, double.calibrate('--quick'), 'the GPU is busy')

    def test_no_permission(self):
        for call, nth in (('cudaSetDevice', 1), ('cudaGetDeviceCount', 1), ('cuInit', 2)):
            for error in (800, 304):
                double = Double([f'fail {call} {nth} {error}'])
                self.fails(double, double.calibrate('--quick'), 'no permission')

    def test_a_full_device(self):
        double = Double(total='100MiB', others='90MiB')
        self.fails(double, double.calibrate('--quick'), 'out of memory on the GPU')

    def test_bad_options_are_usage(self):
        """Also where there is no GPU, which is then not even looked for."""
        double = Double(devices=0)
        for args in (['--max-fill', '0'], ['--max-fill', '101%'], ['--device', 'x'], ['--watchdog', '0'], ['extra'], ['--python', 'no-such']):
            done = double.calibrate(*args)
            self.assertEqual(done.status, 2, args)
            self.assertRegex(done.err, MESSAGE)
            self.assertEqual(double.profiles(), [])

    # -------------------------------------------------------------- calls

    def fails_or_leaves_out(self, double, done, call):
        """What measures speed and libraries may fail alone: the profile is whole then, and says what it lacks."""
        if done.status != 0:
            self.fails(double, done, call)
            return 'failed'
        self.assertTrue([s for s in done.report['skipped'] if call in s], done.report['skipped'])
        [profile] = double.profiles()
        self.assertEqual(double.run('devices', str(profile)).status, 0)
        self.assertEqual(double.alive(), [])
        profile.unlink()
        return 'left out'

    def test_every_call_that_fails(self):
        """Each function, at its first, second, last and some calls between, with an error that nothing explains."""
        double = Double(devices=2)
        self.assertEqual(double.calibrate('--quick', '--managed').status, 0)
        calls, ends = double.calls(), []
        for profile in double.profiles():
            profile.unlink()
        for call in CALLS:
            total = calls[call]
            if call in ('cudaGetLastError', 'cudaGetErrorName', 'cudaGetErrorString'):
                continue  # say what failed, and fail themselves never
            for nth in sorted({1, 2, 3, total // 3, 2 * total // 3, total - 1, total} & set(range(1, total + 1))):
                double.set([f'fail {call} {nth} 700'], devices=2)
                done = double.calibrate('--quick', '--managed')
                with self.subTest(call=call, nth=nth):
                    ends.append(self.fails_or_leaves_out(double, done, call))
            if call != 'cuDeviceGetCount' and calls['cuLaunchKernel']:  # of which GPUs are here (test_profile.py); built with nvcc
                self.assertGreater(total, 0, f'{call} is never called')
        self.assertGreater(ends.count('failed'), 60)
        self.assertGreater(ends.count('left out'), 60)

    def test_out_of_memory_anywhere_but_in_cudaMalloc_is_a_failure(self):
        double = Double()
        double.calibrate('--quick')
        calls = double.calls()
        for profile in double.profiles():
            profile.unlink()
        for call, nth in (('cudaMallocAsync', calls['cudaMallocAsync']), ('cuMemCreate', 1), ('cudaSetDevice', 2)):
            double.set([f'fail {call} {nth} 2'])
            self.fails(double, double.calibrate('--quick'), 'out of memory')

    def test_a_call_that_hangs(self):
        double = Double()
        for call in ('cuInit', 'cudaSetDevice', 'cudaMalloc', 'cudaFree', 'cudaDeviceReset', 'cuMemMap'):
            double.set([f'hang {call} {2 if call == "cuInit" else 1}'])  # the first is NVML's job, which may be left out
            begin = time.monotonic()
            done = double.calibrate('--quick', '--watchdog', '0.3')
            self.assertLess(time.monotonic() - begin, 10)
            with self.subTest(call=call):
                self.fails(double, done, 'nothing was heard for 0.3 s')

    def test_a_probe_of_speed_that_hangs_or_dies_is_left_out(self):
        probe = Double()
        probe.calibrate('--quick')
        kernels = ['hang cuLaunchKernel 100', 'hang cuModuleLoadData 1', 'die cuLaunchKernel 700'] if probe.calls()['cuLaunchKernel'] else []
        for line in [*kernels, 'die cudaMallocHost 1', 'hang cudaMemcpyAsync 3']:
            double = Double([line])
            done = double.calibrate('--quick', '--watchdog', '0.3')
            self.assertEqual(done.status, 0, done.err)
            self.assertTrue([s for s in done.report['skipped'] if 'was heard' in s or 'died' in s], line)
            self.assertEqual(double.alive(), [])

    def test_a_call_that_kills_its_process(self):
        double = Double()
        for call in ('cuInit', 'cudaSetDevice', 'cudaMemGetInfo', 'cudaMalloc', 'cudaFree', 'cudaDeviceReset'):
            double.set([f'die {call} {2 if call == "cuInit" else 1}'])
            with self.subTest(call=call):
                self.fails(double, double.calibrate('--quick'), 'died')

    def test_slow_calls_are_no_hang(self):
        double = Double(['delay cudaMemGetInfo 0.002'])
        done = double.calibrate('--quick', '--watchdog', '5')
        self.assertEqual(done.status, 0, done.err)

    # -------------------------------------------------------------- interruption

    def test_interruption_at_any_moment(self):
        """Ctrl-C reaches the whole group; a kill only the program. Either way nobody is left, and no file."""
        double = Double(['delay cudaMalloc 0.001'])
        for which, kill in ((signal.SIGINT, os.killpg), (signal.SIGINT, os.kill), (signal.SIGTERM, os.kill), (signal.SIGKILL, os.kill)):
            for wait in (0.02, 0.06, 0.15, 0.4):
                with self.subTest(signal=which, kill=kill.__name__, wait=wait):
                    child = double.start('calibrate', '--quick')
                    time.sleep(wait)
                    kill(child.pid, which)
                    child.communicate()
                    end = time.monotonic() + 5
                    while double.alive() and time.monotonic() < end:
                        time.sleep(0.01)
                    self.assertEqual(double.alive(), [])
                    self.assertEqual(child.returncode, -which)
                    self.assertEqual(double.profiles(), [])

    # -------------------------------------------------------------- files

    def test_a_profile_that_cannot_be_written(self):
        """It is told before anything is measured."""
        double = Double()
        (double.folder / 'loop').symlink_to('loop')
        for file in ('/no/such/folder/x.yaml', '.', 'settings/x.yaml', 'loop'):
            done = double.calibrate('--quick', '-o', file)
            self.assertEqual(done.status, 2)
            self.assertRegex(done.err, MESSAGE)
            self.assertIn(f"cannot create '{file}'", done.err)
            self.assertFalse(double.state.exists())
            self.assertEqual(double.profiles(), [])
        before = sorted(double.folder.iterdir())
        for words in (['-o', 'x.yaml'], []):
            done = double.calibrate('--quick', *words, room=128 << 10)
            self.assertEqual(done.status, 3)
            self.assertIn('cannot write to', done.err)
            self.assertFalse(double.state.exists())
        self.assertEqual(sorted(p for p in double.folder.iterdir() if p.name != 'config'), before)
        self.assertEqual(double.profiles(), [])
        done = double.calibrate('--quick', '-o', '/dev/full')
        self.assertEqual(done.status, 3)
        shutil.rmtree(double.folder / 'config')
        (double.folder / 'config').write_text('no folder')
        done = double.calibrate('--quick')
        self.assertEqual(done.status, 3)
        self.assertIn('cannot make the folder', done.err)

    def test_a_failure_leaves_the_old_profile(self):
        double = Double()
        self.assertEqual(double.calibrate('--quick').status, 0)
        [profile] = double.profiles()
        before = profile.read_text()
        double.set(['fail cudaMalloc 40 700'])
        self.assertEqual(double.calibrate('--quick').status, 3)
        self.assertEqual(double.profiles(), [profile])
        self.assertEqual(profile.read_text(), before)

    def test_no_home(self):
        double = Double()
        done = double.calibrate('--quick', XDG_CONFIG_HOME='')
        self.assertEqual(done.status, 2)
        self.assertIn('-o FILE', done.err)


if __name__ == '__main__':
    sys.exit(not unittest.main(exit=False, warnings='ignore').result.wasSuccessful())
