#!/usr/bin/env python3
"""test_verify.py: plimsoll verify against the double: what holds and what does not, every call that fails, and what is kept."""
import json
import re
import signal
import time
import unittest

from double import CALLS, Double, GiB, MiB

MODEL = ['mlp', '--set', 'width=512', '--optimizer', 'sgd']
BARE = ['--context', '64MiB']  # the double's; a profile may have libraries on top
PLAY = ['verify', *MODEL, *BARE, '--batch', '16', '--max-fill', '100%', '--json']
MESSAGE = re.compile(r'^plimsoll: [^\n]+\n$')
DIED = 'died|ended with status'  # a sanitizer makes an end of a signal
ERRORS = ('cudaGetLastError', 'cudaGetErrorName', 'cudaGetErrorString')


def batches(done):
    return {b['batch']: b for b in done.report['batches']}


class Verify(unittest.TestCase):
    def calibrated(self, lines=(), **settings):
        """A double whose GPU has a profile; the settings hold from then on."""
        double = Double(**{k: v for k, v in settings.items() if k in ('total', 'context')})
        self.assertEqual(double.calibrate('--quick').status, 0)
        [self.profile] = double.profiles()
        self.before = self.profile.read_text()
        double.set(lines, **settings)
        return double

    def plan(self, double, *args):
        done = double.run('estimate', *MODEL, *BARE, '--json', '--device', str(self.profile), *args)
        return json.loads(done.out)

    def play(self, double, *args, **more):
        return double.run(*PLAY, *args, **more)

    def assertPlayed(self, done, verdict, status):
        self.assertEqual(done.status, status, done.err + done.out)
        self.assertEqual(done.report['verdict'], verdict)
        return batches(done)[done.report['batch']]

    # -------------------------------------------------------------- truth

    def test_a_plan_that_holds(self):
        double = self.calibrated(others='100MiB')
        plan = self.plan(double, '--batch', '16')
        got = self.assertPlayed(self.play(double), 'holds', 0)
        self.assertEqual(got['planned_bytes'], plan['peak']['device_bytes'])
        self.assertEqual(got['reserved_bytes'], plan['peak']['reserved_bytes'])
        self.assertEqual(got['context_bytes'], 64 * MiB)
        self.assertEqual(got['held_back_bytes'], 0)
        self.assertEqual(got['used_bytes'], got['planned_bytes'])
        # the process whose context told the size of this one's has ended by then
        self.assertEqual(got['free_before_bytes'], GiB - 100 * MiB)
        self.assertEqual(got['free_at_peak_bytes'], got['free_before_bytes'] - got['used_bytes'])
        self.assertEqual(got['left_bytes'], got['free_at_peak_bytes'])
        self.assertFalse(got['left_at_least'])
        self.assertEqual(double.left(), [])
        calls = double.calls()
        self.assertGreaterEqual(calls['cudaMemset'], got['requests'] // 2)

    def test_requests_are_those_of_the_allocator(self):
        double = self.calibrated()
        got = self.assertPlayed(self.play(double, '--optimizer', 'adamw'), 'holds', 0)
        self.assertEqual(got['played'], got['requests'])
        memory = double.run('dump', *MODEL, '--batch', '16', '--optimizer', 'adamw', '--stage', 'memory', '--device', str(self.profile)).out
        self.assertGreater(got['requests'], 3)
        self.assertIn(str(got['reserved_bytes']), memory.replace(',', ''))

    def test_what_is_free_and_cannot_be_had(self):
        double = self.calibrated(unusable='128MiB')
        got = self.assertPlayed(self.play(double), 'holds', 0)
        self.assertEqual(got['free_at_peak_bytes'] - got['left_bytes'], 128 * MiB)
        self.assertFalse(got['left_at_least'])

    def test_the_plans_context_is_held_back(self):
        double = self.calibrated()
        got = self.assertPlayed(self.play(double, '--context', '300MiB'), 'holds', 0)
        self.assertEqual(got['held_back_bytes'], 236 * MiB)
        self.assertEqual(got['used_bytes'], got['planned_bytes'])

    def test_a_coarse_device_takes_more_than_planned(self):
        double = self.calibrated(granularity='16MiB')
        got = self.assertPlayed(self.play(double), 'holds', 0)
        self.assertGreater(got['used_bytes'], got['planned_bytes'])

    def test_no_more_than_max_fill(self):
        double = self.calibrated()
        got = self.assertPlayed(self.play(double, '--max-fill', '50%'), 'holds', 0)
        self.assertTrue(got['left_at_least'])
        self.assertLessEqual(got['left_bytes'] + got['reserved_bytes'], 0.5 * (GiB - 64 * MiB))
        done = self.play(double, '--max-fill', '2%')
        self.assertPlayed(done, 'limit', 3)
        self.assertEqual(double.calls()['cudaMalloc'], 3)  # of one page each, to see how large pages are

    def test_expandable_segments(self):
        double = self.calibrated()
        got = self.assertPlayed(self.play(double, '--allocator', 'expandable_segments:True'), 'holds', 0)
        calls = double.calls()
        self.assertEqual(calls['cuMemCreate'], got['reserved_bytes'] // (2 * MiB))
        self.assertEqual(got['used_bytes'], got['planned_bytes'])
        self.assertEqual(got['left_bytes'], got['free_at_peak_bytes'])
        self.assertEqual(double.left(), [])

    def test_a_device_for_one_process_only(self):
        double = self.calibrated(compute_mode=3)
        got = self.assertPlayed(self.play(double), 'holds', 0)
        self.assertEqual(got['context_bytes'], 64 * MiB)

    def test_free_memory_that_tells_of_no_other_process(self):
        double = self.calibrated(blind=1)
        got = self.assertPlayed(self.play(double), 'holds', 0)
        self.assertEqual((got['context_bytes'], got['held_back_bytes']), (64 * MiB, 0))
        self.assertEqual(got['free_before_bytes'], GiB)
        self.assertEqual(got['used_bytes'], got['planned_bytes'])

    # -------------------------------------------------------------- plans that do not hold

    def test_too_little_is_free(self):
        double = self.calibrated(others='840MiB')
        self.assertPlayed(self.play(double), 'holds', 0)  # with one context, not with two
        got = self.assertPlayed(self.play(double, '--set', 'width=4096'), 'fails', 1)
        self.assertLess(got['played'], got['requests'])
        self.assertEqual(got['failure']['request'], got['played'])
        self.assertIsNone(got['used_bytes'])
        self.assertEqual(double.left(), [])
        text = double.run(*[a for a in PLAY if a != '--json'], '--set', 'width=4096').out
        self.assertRegex(text, r'others +840\.00 MiB  in use before')

    def test_where_it_fails(self):
        double = self.calibrated(['fail cudaMalloc 6 2'])
        got = self.assertPlayed(self.play(double), 'fails', 1)
        self.assertEqual(got['failure']['request'], 2)
        self.assertIn(got['failure']['phase'], ('load', 'forward', 'backward'))
        self.assertGreaterEqual(got['failure']['request_bytes'], 2 * MiB)
        self.assertEqual(double.left(), [])
        text = double.run(*[a for a in PLAY if a != '--json']).out
        self.assertIn('The plan does not hold: request 3 of', text)

    def test_what_must_fail_is_known_without_being_played(self):
        """Not even all of the memory would do; where it fails is the same as when that is tried."""
        double = self.calibrated()
        wide = ['--set', 'width=4096', '--batch', '2048']
        for more in ([], ['--allocator', 'expandable_segments:True']):
            double.set()
            holds = self.assertPlayed(self.play(double, *wide, *more), 'holds', 0)
            double.set(others=GiB - holds['used_bytes'] + MiB)
            tried = self.assertPlayed(self.play(double, *wide, *more), 'fails', 1)
            known = self.assertPlayed(self.play(double, *wide, *more, '--max-fill', '60%'), 'fails', 1)
            self.assertEqual(known['failure'], tried['failure'])
            self.assertGreater(known['needed_bytes'], known['free_before_bytes'] - known['context_bytes'])
            state = double.read_state()[1]
            self.assertLess(max(p['most'] for p in state), 64 * MiB + 0.61 * (known['free_before_bytes'] - 64 * MiB))

    def test_beyond_max_fill_the_largest_batch_that_it_allows_is_proven(self):
        double = self.calibrated()
        words = ['verify', *MODEL, '--set', 'width=4096', '--multiple-of', '16', '--margin', '1MiB', '--json']
        for more, played in ([], 2), (['--ladder'], 2), (['--allocator', 'expandable_segments:True'], 2):
            done = double.run(*words, *more)
            asked = self.assertPlayed(done, 'limit', 3)
            self.assertGreater(asked['needed_bytes'], asked['allowed_bytes'])
            self.assertEqual(asked['allowed_bytes'], int(0.95 * (asked['free_before_bytes'] - asked['context_bytes'])))
            proven = batches(done)[done.report['proven_batch']]
            self.assertEqual(proven['verdict'], 'holds')
            self.assertEqual(proven['batch'] % 16, 0)
            self.assertGreaterEqual(len(done.report['batches']), played)
            self.assertEqual(list(batches(done)), sorted(batches(done)))
            self.assertIn(f"batch: {proven['batch']}, holds: true", self.profile.read_text())
            self.assertNotIn(f"batch: {asked['batch']},", self.profile.read_text())
            if '--ladder' not in more:
                next_up = double.run(*words[:-3], '--batch', str(proven['batch'] + 16), '--json', *more)
                self.assertPlayed(next_up, 'limit', 3)
            text = double.run(*words[:-1], *more).out
            self.assertIn(f"Batch {proven['batch']} holds, with at least", text)
            enough = re.search(r'--max-fill (\d+)% plays\s+it', text)[1]
            self.assertLessEqual(int(enough), 100)
            done = double.run(*words[:-3], '--batch', str(asked['batch']), '--max-fill', enough + '%', '--json', *more)
            self.assertPlayed(done, 'holds', 0)
            self.profile.write_text(self.before)

    def test_nothing_is_proven_where_not_even_the_smallest_is_allowed(self):
        double = self.calibrated()
        done = double.run('verify', *MODEL, *BARE, '--batch', '16', '--max-fill', '2%', '--json')
        self.assertPlayed(done, 'limit', 3)
        self.assertIsNone(done.report['proven_batch'])
        self.assertEqual(len(done.report['batches']), 1)

    def test_no_room_for_the_context(self):
        double = self.calibrated(others='700MiB')
        got = self.assertPlayed(self.play(double, '--context', '500MiB'), 'fails', 1)
        self.assertEqual(got['played'], 0)

    # -------------------------------------------------------------- others

    def test_another_process_takes_memory(self):
        double = self.calibrated(['others_at cudaMalloc 7 600MiB'])
        done = self.play(double)
        self.assertPlayed(done, 'disturbed', 3)
        self.assertEqual(double.left(), [])
        self.assertEqual(self.profile.read_text(), self.before)

    # -------------------------------------------------------------- calls

    def test_every_call_that_fails(self):
        double = self.calibrated(devices=2)
        for more in ([], ['--allocator', 'expandable_segments:True']):
            self.assertPlayed(self.play(double, *more), 'holds', 0)
            calls = double.calls()
            self.profile.write_text(self.before)
            for call in CALLS:
                total = calls[call]
                if call in ERRORS or total == 0:
                    continue
                for nth in sorted({1, 2, total // 2, total} & set(range(1, total + 1))):
                    double.set([f'fail {call} {nth} 700'], devices=2)
                    done = self.play(double, *more)
                    with self.subTest(call=call, nth=nth):
                        self.assertEqual(done.status, 3, done.err + done.out)
                        self.assertRegex(done.err, MESSAGE)
                        self.assertEqual(done.out, '')
                        self.assertEqual(self.profile.read_text(), self.before)
                        self.assertEqual(double.alive(), [])
            double.set(devices=2)

    def test_what_hangs_and_what_dies(self):
        for line, words in (('hang cudaMalloc 5', 'nothing was heard'), ('hang cudaMemset 1', 'nothing was heard'),
                            ('hang cudaSetDevice 2', 'nothing was heard'), ('die cudaMalloc 5', DIED), ('die cudaFree 1', DIED)):
            double = self.calibrated([line])
            begin = time.monotonic()
            # a sanitizer takes its time to report a signal
            done = self.play(double, '--watchdog', '0.5' if line.startswith('hang') else '20')
            self.assertEqual(done.status, 3, done.err)
            self.assertRegex(done.err, words)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(self.profile.read_text(), self.before)
            self.assertEqual(double.alive(), [])

    def test_interrupted_at_any_moment(self):
        double = self.calibrated(['delay cudaMalloc 0.05'])
        for number, after in ((signal.SIGINT, 0.02), (signal.SIGINT, 0.2), (signal.SIGTERM, 0.4), (signal.SIGKILL, 0.3)):
            child = double.start(*PLAY)
            time.sleep(after)
            child.send_signal(number)
            child.communicate(timeout=20)
            self.assertEqual(child.returncode, -number)
            end = time.monotonic() + 5
            while double.alive() and time.monotonic() < end:
                time.sleep(0.02)
            self.assertEqual(double.alive(), [])
            self.assertEqual(double.profiles(), [self.profile])
            self.assertEqual(self.profile.read_text(), self.before)

    # -------------------------------------------------------------- what is kept

    def test_the_result_is_in_the_profile(self):
        double = self.calibrated()
        done = self.play(double)
        self.assertEqual(done.report['profile'], str(self.profile))
        text = self.profile.read_text()
        self.assertTrue(text.startswith(self.before))
        self.assertEqual(text.count('batch: 16, holds: true'), 1)
        self.play(double)
        self.assertEqual(self.profile.read_text().count('batch: 16, holds: true'), 2)
        double.set(['fail cudaMalloc 6 2'])
        self.play(double)
        self.assertEqual(self.profile.read_text().count('holds: false'), 1)
        self.assertEqual(double.run('devices', str(self.profile)).status, 0)
        self.assertEqual(double.profiles(), [self.profile])

    def test_the_oldest_lines_go(self):
        double = self.calibrated()
        self.play(double)
        line = self.profile.read_text().splitlines()[-1]
        self.profile.write_text(self.before + 'verified:\n' + (line.replace('batch: 16', 'batch: 1') + '\n') * 64)
        self.play(double)
        text = self.profile.read_text()
        self.assertEqual(text.count('batch: 1,'), 63)
        self.assertTrue(text.splitlines()[-1].count('batch: 16,'))

    def test_a_plan_that_fills_the_gpu_changes_the_margin(self):
        """By how much it exceeds what was planned is known better then than from a fit."""
        double = self.calibrated(granularity='16MiB')
        small = self.play(double)
        self.assertEqual(small.report['margin_bytes'], small.report['margin_before_bytes'])
        done = double.run('verify', *MODEL, '--set', 'width=4096', '--batch', '2048', '--max-fill', '100%', '--json')
        got = self.assertPlayed(done, 'holds', 0)
        self.assertGreater(got['used_bytes'], GiB / 2)
        self.assertEqual(done.report['margin_bytes'] - done.report['margin_before_bytes'], got['used_bytes'] - got['planned_bytes'])

    def test_the_ladder(self):
        double = self.calibrated()
        done = self.play(double, '--ladder', '--batch', '160', '--multiple-of', '5')
        self.assertEqual(sorted(batches(done)), [140, 150, 160, 170, 180])
        self.assertEqual(done.report['batch'], 160)
        self.assertEqual(self.profile.read_text().count('holds: true'), 5)
        done = self.play(double, '--ladder', '--batch', '2')
        self.assertEqual(sorted(batches(done)), [1, 2, 3, 4])

    def test_without_a_batch_the_largest_that_is_safe(self):
        double = self.calibrated()
        plan = json.loads(double.run('plan', *MODEL, '--json', '--device', str(self.profile), '--margin', '100MiB', '--multiple-of', '64').out)
        done = double.run('verify', *MODEL, '--json', '--margin', '100MiB', '--multiple-of', '64', '--max-fill', '100%')
        self.assertEqual(done.report['batch'], plan['batch'])
        self.assertPlayed(done, 'holds', 0)
        done = double.run('verify', *MODEL, '--json', '--margin', '90%', '--max-fill', '100%')
        self.assertEqual(done.status, 2)
        self.assertIn('no batch is safe', done.err)

    def test_a_profile_that_is_elsewhere_is_the_one_that_keeps_it(self):
        """As `calibrate -o FILE` leaves one; whatever is in the usual folder is another."""
        double = self.calibrated()
        own = double.folder / 'own.yaml'
        own.write_text(self.before)
        for there in (True, False):
            done = self.play(double, '--device', str(own))
            self.assertPlayed(done, 'holds', 0)
            self.assertEqual(done.report['profile'], str(own))
            self.assertEqual(own.read_text().count('batch: 16, holds: true'), 1 if there else 2)
            if there:
                self.assertEqual(self.profile.read_text(), self.before)
                self.profile.unlink()
            self.assertEqual(double.profiles(), [self.profile] if self.profile.exists() else [])

    def test_another_gpus_profile_is_left_alone(self):
        double = self.calibrated(uuid='ff' * 16)
        done = self.play(double, '--device', str(self.profile))
        self.assertPlayed(done, 'holds', 0)
        self.assertIsNone(done.report['profile'])
        self.assertEqual(self.profile.read_text(), self.before)

    # -------------------------------------------------------------- refusals

    def test_no_profile(self):
        double = Double()
        done = self.play(double)
        self.assertEqual(done.status, 2)
        self.assertIn("'plimsoll calibrate' makes one", done.err)
        double = Double(name='Tesla T4', total='16GiB')
        done = self.play(double)
        self.assertPlayed(done, 'holds', 0)
        self.assertEqual(done.report['device'], 't4')
        self.assertIsNone(done.report['profile'])
        self.assertIn('Not kept: t4 was not measured on this GPU', double.run(*[a for a in PLAY if a != '--json']).out)

    def test_input_is_checked_before_the_gpu_is_asked(self):
        double = Double(devices=0)
        (double.folder / 'fixed.json').write_text('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 9}}')
        (double.folder / 'open.json').write_text('{"zero_optimization": {"stage": 1}}')
        for args, words in (
                (['no-such-model', '--batch', '2'], 'no-such-model'),
                (['no-such-model', '--device', 'local'], 'no-such-model'),
                (['mlp', '--batch', '2', '--tp', '3'], ''),
                (['mlp', '--set', 'widht=3'], 'widht'),
                (['mlp', '--set', 'widht=3', '--batch', '2'], 'widht'),
                (['mlp', '--tp', '3'], ''),
                (['mlp', '--multiple-of', '8', '--max-batch', '4'], 'no multiple of 8'),
                (['mlp', '--device', 'no-such'], 'no-such'),
                (['mlp', '--device', 'local:x'], 'local:N'),
                (['mlp', '--deepspeed', 'fixed.json', '--device', 'local'], 'fixed.json'),
                (['mlp', '--deepspeed', 'none.json'], 'none.json'),
                (['mlp', '--deepspeed', 'open.json', '--gpus', '2', '--margin', '1GiB', '--batch', '2'], '--margin and --batch'),
                (['mlp', '--batch', '2', '--allocator', 'nonsense:1'], 'nonsense'),
                (['mlp', '-o', '/no/such/file'], "cannot create '/no/such/file'"),
                (['mlp', '-o', '.'], "cannot create '.'")):
            for where in ({}, {'LD_LIBRARY_PATH': ''}):
                done = double.run('verify', *args, **where)
                self.assertEqual((done.status, done.out), (2, ''), f'{args}: {done.err}')
                self.assertIn(words, done.err)
                self.assertFalse(double.state.exists(), args)
        self.assertEqual(double.run('verify', 'mlp').status, 3)
        done = double.run('verify', 'mlp', '-o', 'out.json', room=128 << 10)
        self.assertEqual(done.status, 3)
        self.assertIn('cannot write to out.json', done.err)
        self.assertFalse((double.folder / 'out.json').exists())

    def test_the_batch_of_a_deepspeed_file(self):
        double = self.calibrated(total='8GiB')
        (double.folder / 'fixed.json').write_text('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}}')
        more = ['--gpus', '2', '--deepspeed', 'fixed.json']
        done = double.run('verify', *MODEL, *more, '--max-fill', '100%', '--json')
        self.assertPlayed(done, 'holds', 0)
        self.assertEqual(done.report['batch'], 4)
        done = double.run('verify', *MODEL, *more, '--margin', '1GiB')
        self.assertEqual(done.status, 2)
        self.assertIn('--margin and the batch of --deepspeed do not go together', done.err)

    def test_refusals(self):
        double = self.calibrated()
        for args, status, words in (
                (['--allocator', 'backend:cudaMallocAsync'], 2, 'cudaMallocAsync'),
                (['--batch', '100000000'], 2, 'out of memory: there is nothing to play'),
                (['--device', 'local:7'], 3, 'there is no GPU 7'),
                (['--device', 'no-such'], 2, 'no-such'),
                (['--max-fill', '0'], 2, '--max-fill'),
                (['--max-fill', '101%'], 2, '--max-fill'),
                (['--watchdog', '0'], 2, '--watchdog'),
                (['--margin', '1GiB'], 2, '--margin and --batch do not go together'),
                (['--reserve', '1GiB'], 2, '--reserve and --batch do not go together'),
                (['--max-batch', '20'], 2, '--max-batch and --batch do not go together'),
                (['--csv'], 2, '--csv: not an option of verify')):
            done = self.play(double, *args)
            self.assertEqual(done.status, status, f'{args}: {done.err}{done.out}')
            self.assertIn(words, done.err)
        done = double.run('verify', 'no-such-model', '--batch', '1')
        self.assertEqual(done.status, 2)
        self.assertEqual(double.run('verify').status, 2)
        double = self.calibrated(devices=0)
        done = self.play(double)
        self.assertEqual(done.status, 3)
        self.assertRegex(done.err, MESSAGE)

    def test_a_profile_that_was_broken(self):
        double = self.calibrated()
        self.play(double)
        text = self.profile.read_text()
        number = len(text.splitlines())
        for wrong, words in ((text.replace('holds: true', 'holds: perhaps'), "'holds'"),
                             (text.replace(', left_at_least: false', ''), 'left_at_least'),
                             (re.sub(r'left: \d+', 'left: 1TiB', text), "'left' is part of 'free'")):
            self.profile.write_text(wrong)
            done = double.run('devices', str(self.profile))
            self.assertEqual(done.status, 2, done.out)
            self.assertIn(f':{number}:', done.err)
            self.assertIn(words, done.err)


if __name__ == '__main__':
    unittest.main()
