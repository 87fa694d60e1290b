#!/usr/bin/env python3
"""test_profile.py: the profile is found again, used with the right warnings, and refused when it is corrupt."""
import json
import re
import sys
import unittest

from double import GiB, MiB, Double

PLAN = ('plan', 'mlp', '--json', '--max-batch', '64')


class Profile(unittest.TestCase):
    def setUp(self):
        self.double = Double(total='8GiB', context='300MiB')
        done = self.double.calibrate('--quick')
        self.assertEqual(done.status, 0, done.err)
        [self.path] = self.double.profiles()
        self.report = done.report

    def devices(self, text):
        path = self.double.folder / 'profile.yaml'
        path.write_text(text)
        return self.double.run('devices', str(path), '--json')

    # -------------------------------------------------------------- found again

    def test_it_is_where_the_program_looks(self):
        self.assertEqual(self.path.stem, self.report['name'])
        self.assertEqual(str(self.path), self.report['profile'])
        listed = json.loads(self.double.run('devices', '--json').out)
        [mine] = [d for d in listed['devices'] if d['name'] == self.report['name']]
        self.assertEqual(mine['total_bytes'], 8 * GiB)
        self.assertEqual(mine['context_bytes'], self.report['context_bytes'] + self.report['libraries_bytes'])
        self.assertEqual(json.loads(self.double.run('devices', 'local', '--json').out)['devices'], [mine])

    def test_plan_and_estimate_use_it(self):
        for device in (self.report['name'], str(self.path), 'local', 'local:0'):
            done = self.double.run(*PLAN, '--device', device)
            self.assertIn(done.status, (0, 1), done.err)
            self.assertEqual(done.err, '')
            plan = json.loads(done.out)
            self.assertEqual(plan['margin_bytes'], self.report['margin_bytes'])
            self.assertIn('calibrated', plan['margin_reason'])
            done = self.double.run('estimate', 'mlp', '--json', '--device', device)
            self.assertEqual((done.status, done.err), (0, ''))

    def test_a_margin_that_is_given_wins(self):
        plan = json.loads(self.double.run(*PLAN, '--device', 'local', '--margin', '77MiB').out)
        self.assertEqual(plan['margin_bytes'], 77 * MiB)

    def test_o_writes_elsewhere(self):
        self.path.unlink()
        done = self.double.calibrate('--quick', '-o', 'here.yaml')
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(self.double.profiles(), [])
        self.assertEqual(self.double.run('devices', 'here.yaml').status, 0)
        done = self.double.run('calibrate', '--quick', '-o', '-')
        self.assertTrue(done.out.startswith('# written by plimsoll calibrate'))
        self.assertEqual(self.devices(done.out).status, 0)

    # -------------------------------------------------------------- warnings

    def test_another_driver_is_a_warning(self):
        self.double.set_nvml(driver='590.01')
        for device in ('local', self.report['name']):
            done = self.double.run(*PLAN, '--device', device)
            self.assertIn(done.status, (0, 1))
            self.assertIn('warning: ', done.err)
            self.assertIn('was measured with driver 580.65.06, and the driver here is 590.01', done.err)

    def test_without_nvml_the_driver_is_known_by_its_cuda_version(self):
        self.double.set_nvml('fail nvmlInit_v2 1 999', 'from nvmlInit_v2 1 999', 'from nvmlInit 1 999')
        done = self.double.calibrate('--quick')
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.report['driver'], '13.0')
        self.assertTrue(any(s.startswith('nvml_used: ') for s in done.report['skipped']), done.report['skipped'])

    def test_another_gpu_is_a_warning(self):
        self.double.set(uuid='0102030405060708090a0b0c0d0e0f10')
        done = self.double.run(*PLAN, '--device', self.report['name'])
        self.assertIn(done.status, (0, 1))
        self.assertIn('was measured on another GPU', done.err)
        done = self.double.run(*PLAN, '--device', 'local')
        self.assertEqual(done.status, 3)
        self.assertIn("'plimsoll calibrate' measures it", done.err)

    def test_the_newer_of_two_drivers_profiles_is_taken(self):
        self.double.set_nvml(driver='590.01')
        self.assertEqual(self.double.calibrate('--quick').status, 0)
        done = self.double.run('estimate', 'mlp', '--json', '--device', 'local')
        self.assertEqual(done.err, '')
        self.assertIn('-590.01', done.out)

    def test_without_a_gpu_the_only_profile_is_taken_with_a_warning(self):
        done = self.double.run(*PLAN, '--device', 'local', LD_LIBRARY_PATH='')
        self.assertIn(done.status, (0, 1), done.err)
        self.assertIn('there is no GPU here', done.err)
        done = self.double.run(*PLAN, '--device', self.report['name'], LD_LIBRARY_PATH='')
        self.assertEqual(done.err, '')

    def test_a_driver_that_fails_is_no_gpu_here(self):
        for call in ('cuInit', 'cuDeviceGetCount', 'cuDeviceGetName', 'cuDeviceGetUuid'):
            self.double.set([f'fail {call} 1 999'])
            done = self.double.run(*PLAN, '--device', 'local')
            self.assertIn(done.status, (0, 1), done.err)
            self.assertIn('there is no GPU here', done.err)

    def test_local_refuses_what_is_no_number(self):
        for device in ('local:x', 'local:-1'):
            self.assertEqual(self.double.run(*PLAN, '--device', device).status, 2)
        self.assertEqual(self.double.run(*PLAN, '--device', 'local:1').status, 3)

    # -------------------------------------------------------------- corrupt files

    def test_a_file_that_was_cut_anywhere_is_an_error_with_its_line(self):
        text = self.path.read_text()
        lines = text.splitlines(True)
        for count in range(1, len(lines)):
            for cut in (''.join(lines[:count]), ''.join(lines[:count]) + lines[count][:len(lines[count]) // 2], ''.join(lines)[:-2]):
                done = self.devices(cut)
                self.assertEqual(done.status, 2, cut[-80:])
                self.assertRegex(done.err, r'profile\.yaml:\d+:\d+: ')

    def test_changed_numbers_are_errors_with_their_line(self):
        text = self.path.read_text()
        changes = [
            (r'^    context: \d+$', '    context: 5', 'residual'),
            (r'residual: 0\}', 'residual: 17}', 'residual'),
            (r'^    granularity:$', '    granularty:', 'granularity'),
            (r'max_fill: 0.95', 'max_fill: 1.5', 'max_fill'),
            (r'unit: bytes', 'unit: parsecs', 'unit'),
            (r'\{value: 0\}', '{value: -1}', 'value'),
            (r', low: \d+', ', low: 99999999999', 'low'),
            (r', low: \d+', ', low: -1', 'low'),
            (r', high: \d+', ', high: 1e300', 'high'),
            (r'ecc: true', 'ecc: maybe', 'ecc'),
            (r'^  uuid: .*$', '', 'uuid'),
        ]
        for pattern, new, word in changes:
            changed, n = re.subn(pattern, new, text, count=1, flags=re.M)
            self.assertEqual(n, 1, pattern)
            done = self.devices(changed)
            self.assertEqual(done.status, 2, pattern)
            self.assertRegex(done.err, r'profile\.yaml:\d+:\d+: .*' + word)

    def test_a_corrupt_one_is_no_answer_in_a_plan(self):
        self.path.write_text(self.path.read_text()[:700])
        for device in ('local', self.report['name']):
            done = self.double.run(*PLAN, '--device', device)
            self.assertEqual((done.status, done.out), (2, ''))
            self.assertIn(self.path.name, done.err)

    def test_a_link_that_leads_nowhere_is_named(self):
        link = self.path.with_name('link.yaml')
        link.symlink_to(self.double.folder / 'nothing')
        done = self.double.run(*PLAN, '--device', 'link')
        self.assertEqual((done.status, done.out), (2, ''))
        self.assertIn(f'{link}: cannot be read: No such file', done.err)
        done = self.double.run('devices')
        self.assertEqual(done.status, 0)
        self.assertEqual(done.err, f'{link}: warning: left out: cannot be read: No such file or directory\n')

    def test_a_wrong_file_beside_it_is_a_warning(self):
        bad = {name: self.path.with_name(name + '.yaml') for name in ('broken', 'folder', 'other')}
        bad['broken'].write_text('plimsoll: 1\ndevice: [\n')
        bad['folder'].mkdir()
        bad['other'].write_text(self.path.read_text().replace('max_fill: 0.95', 'max_fill: 7'))
        for words in (('devices',), (*PLAN, '--device', 'local'), ('verify', 'mlp', '--batch', '2')):
            done = self.double.run(*words)
            self.assertIn(done.status, (0, 1), done.err)
            self.assertNotEqual(done.out, '')
            lines = done.err.splitlines()
            self.assertEqual(len(lines), 3, done.err)
            for line, (name, path) in zip(lines, sorted(bad.items())):
                place = r': ' if name == 'folder' else r':\d+:\d+: '
                self.assertRegex(line, '^' + re.escape(str(path)) + place + 'warning: left out: ')
        for name in bad:
            done = self.double.run(*PLAN, '--device', name)
            self.assertEqual((done.status, done.out), (2, ''))
            self.assertIn(f'{name}.yaml', done.err)
            self.assertNotIn('warning', done.err)
        done = self.double.run(*PLAN, '--device', 't4')
        self.assertIn(done.status, (0, 1))
        self.assertEqual(done.err, '')

    def test_another_drivers_profile_stands_in_for_a_wrong_one(self):
        self.double.set_nvml(driver='590.01')
        self.assertEqual(self.double.calibrate('--quick').status, 0)
        [newer] = [p for p in self.double.profiles() if '590.01' in p.name]
        newer.write_text('plimsoll: 1\n')
        done = self.double.run(*PLAN, '--device', 'local')
        self.assertIn(done.status, (0, 1))
        self.assertIn(f'{newer}:1:1: warning: left out: ', done.err)
        self.assertIn('was measured with driver 580.65.06, and the driver here is 590.01', done.err)


if __name__ == '__main__':
    sys.exit(not unittest.main(exit=False, warnings='ignore').result.wasSuccessful())
