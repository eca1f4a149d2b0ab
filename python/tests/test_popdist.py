"""Several processes: PopDist's names, and the script of docs/distributed.md."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import sluice
from sluice import popdist

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "distributed.md").read_text()
SCRIPT = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
PRINTED = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
COMPAT = Path(__file__).resolve().parents[1] / "compat"

needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None or "SLUICE_WITHOUT_MPI" in os.environ,
                               reason="there is no mpirun, or the build is without MPI")


def launch(tmp_path, script, *arguments):
    """Runs a script in several processes; its exit code and what it prints."""
    path = tmp_path / "train.py"
    path.write_text(script)
    environment = dict(os.environ, OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1", SLUICE_LOG_LEVEL="ERR",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none", PYTHONWARNINGS="ignore",
                       PYTHONPATH=f"{COMPAT}:{os.environ.get('PYTHONPATH', '')}")
    run = subprocess.run([sys.executable, "-m", "sluice", "launch", *arguments, sys.executable, str(path)],
                         env=environment, capture_output=True, text=True, check=False, timeout=300)
    return run.returncode, run.stdout, run.stderr


def one_process(replicas):
    """What the script prints if all replicas are in this process."""
    code = SCRIPT.replace("popdist.Options()", f"sluice.Options().replicationFactor({replicas})")
    code = code.replace("popdist.getNumTotalReplicas()", str(replicas))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


@needs_mpi
def test_the_script_of_the_page_prints_what_it_says_in_any_number_of_processes(tmp_path):
    assert "rank 0: " + one_process(4) == PRINTED
    for processes in ("2", "4"):
        code, out, err = launch(tmp_path, SCRIPT, "-n", processes, "--replicas", "4")
        assert (code, out) == (0, PRINTED), err


@needs_mpi
def test_scripts_that_import_popdist_run(tmp_path):
    script = """
import popdist, popdist.poptorch
popdist.init()
print(popdist.isPopdistEnvSet(), popdist.getNumInstances(), popdist.getNumTotalReplicas(),
      popdist.getNumLocalReplicas(), popdist.getReplicaIndexOffset(), popdist.getNumIpusPerReplica(),
      popdist.poptorch.Options().replication_factor)
"""
    code, out, err = launch(tmp_path, script, "-n", "2", "--replicas", "6")
    assert code == 0, err
    assert sorted(out.splitlines()) == ["rank 0: True 2 6 3 0 1 3", "rank 1: True 2 6 3 3 1 3"]


@needs_mpi
def test_a_failure_of_one_process_ends_all(tmp_path):
    script = SCRIPT.replace("        model(*inputs)", "        model(*inputs)\n"
                            "        if popdist.getInstanceIndex() == 1:\n"
                            "            raise SystemExit('enough')")
    code, _, err = launch(tmp_path, script, "-n", "2", "--timeout", "5")
    assert code == 1
    assert "rank 1: enough" in err
    assert "rank 1 has ended, and rank 0 waits for a message from it" in err


def test_one_process_has_all_replicas(monkeypatch):
    assert (popdist.getNumInstances(), popdist.getInstanceIndex(), popdist.isPopdistEnvSet()) == (1, 0, False)
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "3")
    assert popdist.getNumLocalReplicas() == 3 and popdist.Options().replication_factor == 3
    monkeypatch.setenv("SLUICE_REPLICAS", "many")
    with pytest.raises(ValueError, match="SLUICE_REPLICAS is 'many'"):
        popdist.init()
    monkeypatch.setenv("SLUICE_REPLICAS", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    with pytest.raises(ValueError, match="3 replicas cannot be divided among 2 processes"):
        popdist.init()
