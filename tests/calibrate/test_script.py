#!/usr/bin/env python3
"""test_script.py: calib/check-on-gpu.sh runs through on the double, and reports what fails."""
import json
import subprocess
import sys
import unittest

import double as doubles
from double import ROOT, Double

SCRIPT = ROOT / 'calib/check-on-gpu.sh'


class Script(unittest.TestCase):
    def run_script(self, double, **more):
        double.state.unlink(missing_ok=True)
        environment = double.environment(PLIMSOLL=doubles.PROGRAM, PYTHON='false', **more)
        done = subprocess.run([SCRIPT, 'out'], env=environment, cwd=double.folder, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=170)
        report = json.loads((double.folder / 'out/report.json').read_text())
        self.assertEqual(report['status'], done.returncode)
        self.assertEqual((double.folder / 'out/report.txt').read_text(), done.stdout)
        return done, report

    def test_a_gpu_on_which_plans_hold(self):
        double = Double(total='12GiB', context='300MiB')
        done, report = self.run_script(double)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([v['model'] for v in report['verify']], ['bert-mlm', 'gpt2', 'resnet50'])
        self.assertEqual({v['verdict'] for v in report['verify']}, {'holds'})
        self.assertEqual(report['torch'], [])
        self.assertIn('PyTorch: not compared', done.stdout)
        self.assertTrue((double.folder / 'out/profile.yaml').exists())
        self.assertEqual(double.profiles(), [])  # the user's own folder is left alone
        self.assertEqual(double.alive(), [])

    def test_no_gpu(self):
        double = Double(devices=0)
        done, report = self.run_script(double)
        self.assertEqual(done.returncode, 3)
        self.assertIsNone(report['calibrate'])
        self.assertIn('calibrate: FAILED with status 3: plimsoll: ', done.stdout)

    def test_no_time(self):
        done, report = self.run_script(Double(), SECONDS_MAX='1')
        self.assertEqual(done.returncode, 3)
        self.assertIn('calibrate: FAILED with status 124', done.stdout)

    def test_a_plan_that_does_not_hold_is_a_failure(self):
        """The GPU loses its memory between calibration and verification."""
        double = Double(total='12GiB', context='300MiB')
        double.run('calibrate', '--quick', '-o', 'x.yaml')
        self.run_script(double)
        calls = double.calls()['cudaMalloc']
        double.set([f'others_at cudaMalloc {calls - 60} 11GiB'], total='12GiB', context='300MiB')
        done, report = self.run_script(double)
        self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == '__main__':
    sys.exit(not unittest.main(exit=False, warnings='ignore').result.wasSuccessful())
