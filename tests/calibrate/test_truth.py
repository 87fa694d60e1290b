#!/usr/bin/env python3
"""test_truth.py: each probe finds what the double was told to be."""
import pathlib
import re
import sys
import unittest

from double import GiB, KiB, MiB, Double


def measured(*args, lines=(), **settings):
    double = Double(lines, **settings)
    done = double.calibrate(*args)
    if done.status != 0:
        raise AssertionError(f'status {done.status}: {done.err}')
    return done


def has_kernels():
    """Was the program built with nvcc?"""
    return not any('built without nvcc' in s for s in measured('--quick').report['skipped'])


class Truth(unittest.TestCase):
    def test_total_context_and_others(self):
        for settings in ({'total': '3GiB', 'context': '300MiB', 'others': '500MiB'},
                         {'total': '2GiB', 'context': '62MiB', 'others': '0'},
                         {'total': '1GiB', 'context': '8MiB', 'others': '700MiB'}):
            done = measured('--quick', **settings)
            sizes = {k: int(v.removesuffix('GiB')) * GiB if 'GiB' in v else int(v.removesuffix('MiB')) * MiB
                     for k, v in settings.items()}
            for name in ('total', 'context', 'others'):
                self.assertEqual(done.value(name), sizes[name], settings)
            self.assertEqual(done.value('free'), sizes['total'] - sizes['context'] - sizes['others'])

    def test_what_nvml_counts(self):
        double = Double()
        double.set_nvml('total 1GiB', 'reserved 12MiB', 'process 4711 100MiB', 'process 4712 20MiB', 'hidden 4713 7MiB')
        done = double.calibrate('--quick')
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.report['driver'], '580.65.06')
        self.assertEqual(done.report['cuda'], '13.0')
        self.assertEqual(done.value('nvml_used'), 127 * MiB)
        self.assertEqual(done.value('nvml_reserved'), 12 * MiB)
        self.assertEqual(done.value('nvml_processes'), 120 * MiB)
        double.set_nvml('told no')
        done = double.calibrate('--quick')
        self.assertEqual(done.all('nvml_processes'), [])
        double.set_nvml(uuid='GPU-other')
        done = double.calibrate('--quick')
        self.assertEqual(done.status, 0, done.err)
        self.assertTrue(any('NVML does not list' in s for s in done.report['skipped']))

    def test_an_exclusive_gpu_has_one_context(self):
        done = measured('--quick', compute_mode=3, context='96MiB')
        self.assertEqual(done.value('context'), 96 * MiB)
        self.assertEqual(done.figure('context')['count'], 1)

    def test_the_context_where_free_memory_tells_of_no_other_process(self):
        done = measured('--quick', blind=1, context='96MiB', others='100MiB')
        self.assertEqual((done.value('context'), done.value('others')), (96 * MiB, 0))

    def test_granularity_and_alignment(self):
        for granularity, alignment, small in ((2 * MiB, 512, MiB), (4 * MiB, 256, MiB), (2 * MiB, 4096, 2 * MiB),
                                              (64 * KiB, 64 * KiB, 0)):
            done = measured('--quick', granularity=granularity, alignment=alignment, small=small)
            self.assertEqual(done.value('granularity'), granularity)
            self.assertEqual(done.value('alignment'), alignment)

    def test_the_ladder_shows_what_shares_a_granule(self):
        done = measured('--quick', granularity='2MiB', small='1MiB')
        self.assertEqual(done.value('ladder', 512), 2 * MiB / 16)       # 16 blocks in one granule
        self.assertEqual(done.value('ladder', MiB), MiB)                # two in each
        self.assertEqual(done.value('ladder', MiB + 512), 2 * MiB)      # one in each
        self.assertEqual(done.value('ladder', 3 * MiB), 4 * MiB)

    def test_usable_memory_is_what_can_be_held(self):
        done = measured('--quick', '--max-fill', '100', unusable='150MiB')
        free = done.value('free')
        figure = done.figure('usable', 2 * MiB)
        self.assertEqual(figure['value'], free - 150 * MiB)
        self.assertFalse(figure['at_least'])
        self.assertEqual(done.value('largest_block'), free - 150 * MiB)
        self.assertTrue(done.figure('usable', 256 * MiB)['at_least'])  # one more is more than there is
        self.assertIn('150.00 MiB free that could not be had', done.report['margin_reason'])

    def test_no_more_than_allowed_is_taken(self):
        for percent in (95, 60, 30):
            done = measured('--quick', '--max-fill', f'{percent}%')
            limit = done.value('free') * percent / 100
            for figure in [done.figure('largest_block'), *done.all('usable')]:
                self.assertLessEqual(figure['value'], limit)
                self.assertTrue(figure['at_least'])
            self.assertGreater(done.value('usable', 2 * MiB), limit - 2 * 2 * MiB)

    def test_no_process_ever_holds_more_than_allowed(self):
        for percent in (95, 40, 10):
            double = Double(total='2GiB', context='100MiB')
            done = double.calibrate('--max-fill', f'{percent}')
            self.assertEqual(done.status, 0, done.err)
            # beside the context: what may be taken, and what libraries and kernels take by themselves (world.h)
            allowed = done.value('free') * percent / 100 + (100 + 8 + 16 + 32 + 8 + 2 + 4 + 32 + 4) * MiB
            self.assertLessEqual(max(p['most'] for p in double.read_state()[1]), allowed)

    def test_holes_in_contiguous_memory_are_lost(self):
        paged = measured('--quick', total='2GiB')
        line = measured('--quick', total='2GiB', contiguous=1)
        self.assertEqual(paged.value('fragmented'), 0)
        self.assertGreater(line.value('fragmented'), 0.4 * line.value('free'))

    def test_neighbours_that_do_not_merge_are_seen(self):
        self.assertEqual(measured('--quick', total='4GiB', contiguous=1, coalesce=1).value('coalesced'), 1)
        self.assertEqual(measured('--quick', total='4GiB', contiguous=1, coalesce=0).value('coalesced'), 0)

    def test_memory_that_does_not_come_back_is_seen(self):
        self.assertEqual(measured('--quick').value('kept'), 0)
        self.assertEqual(measured('--quick', small=0, kept='40MiB').value('kept'), 0)  # kept by the ladder before
        done = measured('--quick', lines=['others_at cudaFree 700 40MiB'])
        self.assertIn(done.value('kept'), (0, 40 * MiB))

    def test_addresses(self):
        self.assertEqual(measured('--quick', reuse=1).value('addresses_reused'), 1)
        self.assertEqual(measured('--quick', reuse=0).value('addresses_reused'), 0)
        self.assertEqual(measured('--quick').value('addresses_increasing'), 1)

    def test_mapped_memory(self):
        done = measured('--quick', vmm_minimum='2MiB', vmm_recommended='8MiB')
        self.assertEqual(done.value('vmm_minimum'), 2 * MiB)
        self.assertEqual(done.value('vmm_recommended'), 8 * MiB)
        self.assertEqual(done.value('vmm_taken', 8 * MiB), 8 * MiB)
        done = measured('--quick', vmm=0)
        self.assertEqual(done.all('vmm_minimum'), [])
        self.assertIn('vmm_minimum: the device has no virtual memory management', done.report['skipped'])

    def test_pools(self):
        done = measured('--quick', pool_growth='16MiB', pool_rounding=256)
        self.assertEqual(done.value('pool_rounding', 1), 256)
        self.assertEqual(done.value('pool_rounding', 513), 768)
        self.assertEqual(done.value('pool_growth', 1), 16 * MiB)
        self.assertEqual(done.value('pool_growth', 48 * MiB), 48 * MiB)
        self.assertEqual(done.value('pool_kept', 1), 0)
        done = measured('--quick', pool_threshold='64MiB', pool_growth='32MiB')
        self.assertEqual(done.value('pool_threshold'), 64 * MiB)
        self.assertEqual(done.value('pool_kept', 48 * MiB), 64 * MiB)
        self.assertEqual(measured('--quick', pools=0).all('pool_growth'), [])

    def test_managed_memory_only_when_asked(self):
        self.assertEqual(measured('--quick').all('managed_beyond'), [])
        self.assertEqual(measured('--quick', '--managed').value('managed_beyond'), GiB)
        self.assertEqual(measured('--quick', '--managed', managed=0).all('managed_beyond'), [])

    def test_a_gpu_that_shrinks_for_a_moment_is_measured_again(self):
        """Another process takes memory while the memory is filled: the probe gives back and starts anew."""
        double = Double()
        self.assertEqual(double.calibrate('--quick').status, 0)
        calls = double.calls()['cudaMalloc']
        found = 0
        for nth in range(calls // 2, calls, max(1, calls // 40)):
            double.set([f'others_at cudaMalloc {nth} 200MiB'])
            done = double.calibrate('--quick')
            self.assertEqual(done.status, 0, done.err)
            found += done.value('backed_off') > 0
            free = done.value('free')
            for figure in done.all('usable'):
                self.assertLessEqual(figure['value'], free * 0.95)
            self.assertEqual(double.left(), [])
        self.assertGreater(found, 3)

    def test_a_gpu_that_keeps_shrinking_leaves_figures_out(self):
        double = Double()
        double.calibrate('--quick')
        calls = double.calls()['cudaMalloc']
        lines = [f'others_at cudaMalloc {n} {i * 12}MiB' for i, n in enumerate(range(calls // 3, 2 * calls, 12), 1)][:60]
        double.set(lines)
        done = double.calibrate('--quick')
        self.assertEqual(done.status, 0, done.err)
        self.assertTrue(any('other processes' in s for s in done.report['skipped']), done.report['skipped'])
        self.assertEqual(double.left(), [])

    def test_what_others_take_or_give_back_for_good_is_no_residual(self):
        """Also between two probes, where nothing is disturbed but what was known of others before."""
        double = Double()
        quiet = double.calibrate('--quick').report
        calls = double.calls()['cudaMalloc']
        for share in (0.05, 0.2, 0.4, 0.6, 0.9):
            nth = int(share * calls)
            for lines in ([f'others_at cudaMalloc {nth} 500MiB'], ['others_at cuInit 1 500MiB', f'others_at cudaMalloc {nth} 0']):
                double.set(lines)
                with self.subTest(lines=lines):
                    done = double.calibrate('--quick')
                    self.assertEqual(done.status, 0, done.err)
                    fit = re.findall(r'residual: (\S+)}', double.profiles()[0].read_text())
                    self.assertGreater(len(fit), 2)
                    self.assertEqual(set(fit), {'0'})
                    self.assertEqual(done.report['margin_bytes'], quiet['margin_bytes'])
                    self.assertEqual(double.left(), [])
                    self.assertEqual(double.run('devices', str(double.profiles()[0])).status, 0)

    # -------------------------------------------------------------- speed

    def close(self, value, truth, share=1e-3):
        self.assertLess(abs(value - truth), share * truth, f'{value} is not {truth}')

    def test_rates_of_kernels(self):
        if not has_kernels():
            self.skipTest('built without nvcc')
        done = measured(total='4GiB', launch=0, bandwidth=1.5e12, fp32=20e12, tf32=100e12, fp16=200e12, bf16=190e12, fp8=333e12)
        for name in ('copy_rate', 'scale_rate'):
            figures = done.all(name)
            self.assertEqual(len(figures), 6)  # 1 GiB is more than a quarter of what is free
            for figure in figures:
                self.close(figure['value'], 1.5e12)
                self.assertEqual(figure['count'], 7)
        for name, truth in (('fp32', 20e12), ('tf32', 100e12), ('fp16', 200e12), ('bf16', 190e12), ('fp8', 333e12)):
            figures = done.all(f'gemm_{name}')
            self.assertGreaterEqual(len(figures), 3)
            for figure in figures:
                self.close(figure['value'], truth)

    def test_old_gpus_are_not_asked_for_what_they_lack(self):
        if not has_kernels():
            self.skipTest('built without nvcc')
        done = measured('--quick', capability=75)
        self.assertEqual([done.all(f'gemm_{name}') == [] for name in ('fp32', 'fp16', 'tf32', 'bf16', 'fp8')],
                         [False, False, True, True, True])
        self.assertNotEqual(measured('--quick', capability=89).all('gemm_fp8'), [])

    def test_copies(self):
        done = measured('--quick', h2d=25e9, d2h=26e9, h2d_pageable=7e9, d2h_pageable=6e9)
        for name, truth in (('h2d_pinned', 25e9), ('d2h_pinned', 26e9), ('h2d_pageable', 7e9), ('d2h_pageable', 6e9)):
            self.close(done.all(name)[0]['value'], truth)
        self.assertEqual(done.all('peer'), [])
        done = measured('--quick', devices=3, peer=123e9)
        self.close(done.all('peer')[0]['value'], 123e9)
        self.assertEqual(done.all('peer')[0]['count'], 2)

    def test_latencies(self):
        """The double sleeps in these calls; a probe may see more than that, never less."""
        done = measured('--quick', lines=['delay cudaMalloc 0.001', 'delay cudaFree 0.003', 'delay cudaEventRecord 0.0005'])
        for name, least in (('malloc', 1e-3), ('free_call', 3e-3), ('event', 5e-4)):
            for figure in done.all(name):
                self.assertGreaterEqual(figure['low'], least)
                self.assertLess(figure['low'], 2 * least + 1e-3)
        done = measured('--quick', lines=['delay cuLaunchKernel 0.0002', 'delay cudaDeviceSynchronize 0.001'])
        if not has_kernels():
            self.skipTest('built without nvcc')
        self.assertGreaterEqual(done.value('launch'), 2e-4)
        self.assertGreaterEqual(done.value('launch_and_wait'), 1.2e-3)

    def test_what_a_module_takes(self):
        if not has_kernels():
            self.skipTest('built without nvcc')
        self.assertEqual(measured('--quick', module='6MiB').value('module'), 6 * MiB)

    # -------------------------------------------------------------- libraries

    def test_what_libraries_take(self):
        done = measured('--quick', total='2GiB', cublas='10MiB', cublas_kernels='22MiB', cublas_workspace='34MiB', cublaslt='6MiB',
                        cudnn='14MiB')
        for name, truth in (('cublas_handle', 10), ('cublas_kernels', 22), ('cublas_workspace', 34 + 10), ('cublaslt_handle', 6),
                            ('cudnn_handle', 14)):
            self.assertEqual(done.value(name), truth * MiB, name)
        self.assertEqual(done.report['libraries_bytes'], (10 + 22 + 6 + 14) * MiB)
        self.assertEqual(done.all('nccl_communicator'), [])

    def test_communicators_of_several_gpus(self):
        done = measured('--quick', devices=2, nccl='60MiB')
        self.assertEqual(done.value('nccl_communicator'), 60 * MiB)

    def test_a_library_that_fails_is_left_out(self):
        done = measured('--quick', lines=['fail cublasCreate 1 1'])
        self.assertIn('cublas_handle: while measuring libraries: cublasCreate failed with status 1', done.report['skipped'])
        self.assertEqual(done.report['libraries_bytes'], 0)
        self.assertNotEqual(done.all('h2d_pinned'), [])

    def test_the_rate_of_cublas(self):
        rates = {'fp32': 20e12, 'tf32': 100e12, 'fp16': 200e12, 'bf16': 190e12, 'fp8': 400e12}
        done = measured('--quick', **rates)
        for name, truth in rates.items():
            for figure in done.all(f'cublas_{name}'):
                self.close(figure['value'], truth)
            self.assertGreater(len(done.all(f'cublas_{name}')), 0)

    def test_fp8_is_left_out_where_there_is_none(self):
        done = measured('--quick', capability=86)
        self.assertIn('cublas_fp8: the GPU has no such tensor cores', done.report['skipped'])
        done = measured('--quick', lines=['fail cublasLtMatmul 1 15'])
        self.assertIn('cublas_fp8: while measuring products of fp8: cublasLtMatmul failed with status 15', done.report['skipped'])
        self.assertNotEqual(done.all('cublas_bf16'), [])

    def test_the_fit_has_no_residual_where_there_is_none(self):
        """context + libraries + reserved is exactly what the double counts, with libraries and without."""
        double = Double(total='2GiB')
        self.assertEqual(double.calibrate('--quick').status, 0)
        [profile] = double.profiles()
        points = [line for line in profile.read_text().splitlines() if 'residual' in line]
        self.assertGreater(len([p for p in points if 'libraries: true' in p]), 4)
        self.assertGreater(len([p for p in points if 'libraries: false' in p]), 4)
        self.assertEqual([p for p in points if 'residual: 0}' not in p], [])

    def python(self, double, text):
        """A program in Python's place; it speaks to the descriptor that it is given as its third word."""
        path = double.folder / 'python'
        path.write_text('#!/bin/sh\n' + text)
        path.chmod(0o755)
        return str(path)

    def test_what_a_framework_takes_is_in_the_context_and_twice_in_no_margin(self):
        double = Double(total='8GiB', context='300MiB', others='100MiB')
        plain = double.calibrate('--quick')
        self.assertEqual(plain.report['margin_bytes'], GiB)
        libraries = plain.report['libraries_bytes']
        free = 8 * GiB - (300 + 100 + 64 + 77) * MiB - libraries
        python = self.python(double, f'echo "alive" >&$3\necho "process {64 * MiB} {free}" >&$3\n')
        done = double.calibrate('--quick', '--python', python)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.value('framework'), 77 * MiB)
        self.assertEqual(done.report['margin_bytes'], 77 * MiB)
        [profile] = double.profiles()
        self.assertIn(f'context: {(300 + 77) * MiB + libraries}\n', profile.read_text())

    def test_a_python_without_pytorch_is_left_out(self):
        for text, reason in (('echo "error ModuleNotFoundError: No module named torch" >&$3', 'No module named torch'),
                             ('exit 5', 'ended with status 5'), ('echo nonsense >&$3', 'means nothing here')):
            double = Double()
            done = double.calibrate('--quick', '--python', self.python(double, text + '\n'))
            self.assertEqual(done.status, 0, done.err)
            self.assertEqual(done.all('framework'), [])
            self.assertTrue([s for s in done.report['skipped'] if s.startswith('framework: ') and reason in s],
                            done.report['skipped'])
        double = Double()
        for python in ('no-such-python', '/no/such/python', str(double.folder / 'settings'), '/tmp'):
            done = double.calibrate('--quick', '--python', python)
            self.assertEqual(done.status, 2)
            self.assertIn(f"--python: '{python}' cannot be run", done.err)
            self.assertFalse(double.state.exists())

    def test_a_python_that_hangs_is_ended(self):
        double = Double()
        python = self.python(double, 'echo $$ >pid\nexec sleep 1000\n')
        done = double.calibrate('--quick', '--watchdog', '0.5', '--python', python)
        self.assertEqual(done.status, 0, done.err)
        self.assertTrue([s for s in done.report['skipped'] if 'nothing was heard for 0.5 s' in s])
        pid = int((double.folder / 'pid').read_text())
        self.assertFalse(pathlib.Path(f'/proc/{pid}').exists())

    # -------------------------------------------------------------- the rest

    def test_the_second_gpu(self):
        double = Double(devices=2)
        done = double.calibrate('--quick', '--device', '1')
        self.assertEqual(done.status, 0, done.err)
        self.assertTrue(done.report['uuid'].endswith('01'))
        self.assertEqual(double.left(), [])

    def test_nothing_is_left(self):
        double = Double()
        for args in (('--quick',), ('--quick', '--managed'), ()):
            self.assertEqual(double.calibrate(*args).status, 0)
            self.assertEqual(double.left(), [])
            self.assertEqual(double.alive(), [])


if __name__ == '__main__':
    sys.exit(not unittest.main(exit=False, warnings='ignore').result.wasSuccessful())
