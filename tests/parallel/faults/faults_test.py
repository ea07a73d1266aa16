#!/usr/bin/env python3
# ctest: label=mpi timeout=240
"""Faults of one rank end the whole job: every rank gone, non-zero exit, the message names the culprit; no false alarms."""
import os
import signal
import subprocess
import sys
import time
import unittest

PROGRAM = os.path.join(os.environ["LONGHAUL_BUILD"], "tests", "fault_program")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
TIMEOUT = 2  # of the watchdog in fault_program


def processes_with(token):
    """Process ids whose environment holds the token (zombies have none)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if token.encode() in file.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


def programs_with(token):
    """Those of them that are fault_program itself."""
    found = []
    for process in processes_with(token):
        try:
            if os.path.basename(os.readlink(f"/proc/{process}/exe")) == "fault_program":
                found.append(process)
        except OSError:
            pass
    return found


class Faults(unittest.TestCase):
    def setUp(self):
        self.token = f"LONGHAUL_FAULT_TEST={os.getpid()}.{self.id()}"
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        name, value = self.token.split("=")
        self.environment[name] = value

    def tearDown(self):
        for process in processes_with(self.token):
            os.kill(process, signal.SIGKILL)

    def start(self, *command):
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"not within {seconds} s: {what}")

    def run_job(self, mode, rank, ranks=2):
        begin = time.monotonic()
        job = self.start(*MPIRUN, "-n", str(ranks), PROGRAM, mode, str(rank))
        output = job.communicate(timeout=60)[0]
        return job.returncode, output, time.monotonic() - begin

    def check_ends(self, mode, rank, ranks, *texts, limit=10):
        code, output, seconds = self.run_job(mode, rank, ranks)
        self.assertNotEqual(code, 0, output)
        self.assertLess(seconds, limit, output)
        for text in texts:
            self.assertIn(text, output)
        self.wait_until(lambda: not processes_with(self.token), 5, "all processes gone")
        return code, output

    def test_exception_on_any_one_rank(self):
        for rank in (0, 1):
            code, _ = self.check_ends("throw", rank, 2, f"rank {rank}: checkpoint shard unreadable")
            self.assertEqual(code, 2)

    def test_agreed_error_is_printed_once(self):
        code, output = self.check_ends("agreed", 1, 3, "rank 1: log directory is not writable")
        self.assertEqual(output.count("log directory is not writable"), 1)
        self.assertEqual(code, 2)

    def test_other_configuration_on_one_rank(self):
        self.check_ends("config", 1, 2, "configuration differs between ranks: 'model.layers' is '4' on rank 0, '6' on rank 1")

    def test_dead_sleep_is_named(self):
        for rank in (0, 1):
            self.check_ends("sleep", rank, 2, f"hang: rank {rank} has made no progress", "step 5 in phase 'forward'",
                            limit=TIMEOUT + 8)

    def test_stopped_rank_is_named(self):
        self.check_ends("stop", 1, 2, "no sign of life from rank 1", "step 5", limit=TIMEOUT + 8)

    def test_killed_rank_ends_all(self):
        self.check_ends("kill", 1, 3)

    def test_rank_that_leaves_quietly_ends_all(self):
        self.check_ends("exit", 1, 2, limit=TIMEOUT + 8)

    def test_killed_launcher_ends_all(self):
        job = self.start(*MPIRUN, "-n", "2", PROGRAM, "forever", "0")
        self.wait_until(lambda: len(programs_with(self.token)) == 2, 20, "two ranks running")
        time.sleep(1)
        job.kill()
        job.communicate()
        self.wait_until(lambda: not processes_with(self.token), 10, "all processes gone")

    def test_killed_wrapper_ends_all(self):
        job = self.start(*MPIRUN, "-n", "2", "bash", "-c", f"{PROGRAM} forever 0; exit $?")
        self.wait_until(lambda: len(programs_with(self.token)) == 2, 20, "two ranks running")
        time.sleep(1)
        with open(f"/proc/{programs_with(self.token)[0]}/stat") as file:
            wrapper = int(file.read().rsplit(")", 1)[1].split()[1])
        os.kill(wrapper, signal.SIGKILL)
        job.communicate(timeout=30)
        self.assertNotEqual(job.returncode, 0)
        self.wait_until(lambda: not processes_with(self.token), 10, "all processes gone")

    def test_no_false_alarms(self):
        for mode in ("none", "slow", "save"):
            code, output, _ = self.run_job(mode, 1)
            self.assertEqual(code, 0, output)
            self.assertIn("done", output)

    def test_alone_without_launcher(self):
        begin = time.monotonic()
        job = self.start(PROGRAM, "none", "1")
        self.assertIn("done", job.communicate(timeout=30)[0])
        self.assertEqual(job.returncode, 0)
        self.assertLess(time.monotonic() - begin, 5)

    def test_slurm_step_without_ranks_is_refused(self):
        self.environment.update(SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="2")
        job = self.start(PROGRAM, "none", "1")
        self.assertIn("srun --mpi=pmix", job.communicate(timeout=30)[0])
        self.assertNotEqual(job.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[1:])
