#!/bin/bash
# Everything that a lent GPU must show, cheapest first, each part with a time limit and its result in FOLDER at once.
#   benchmarks/gpu_check.sh FOLDER [kernels] [wide] [step] [speed] [profile] [tests] [kills] [run] [ptb] [indrnn]
# All parts take about eleven minutes.
# PTB names a folder with the Penn Treebank (../shared/data/ptb). GPU_CHECK_DEVICE=cpu tries the same here, in tiny shapes.
# A part that fails or takes too long does not stop the others; the last line says which.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=$(realpath -m "${1:?usage: benchmarks/gpu_check.sh FOLDER [PART …]}"); shift; mkdir -p "$out"
device=${GPU_CHECK_DEVICE:-cuda} ptb=${PTB:-$(ls -d shared/data/ptb ../shared/data/ptb 2>/dev/null | head -1)}
python=$(command -v .venv/bin/python || command -v python3)
rnnlm=("$python" -u -c 'import sys; sys.argv[0] = "rnnlm"; from flows.command_line import console_entry; console_entry()')
export PYTHONUNBUFFERED=1 RNNLM_HOME=$(mktemp -d) TRITON_CACHE_DIR=${TRITON_CACHE_DIR:-/tmp/triton-cache}
failed=()
if [ "$device" = cuda ] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "gpu_check: this machine has no GPU that torch can use; GPU_CHECK_DEVICE=cpu tries the parts in tiny shapes"
    exit 1
fi

part() { # NAME SECONDS COMMAND …
    local name=$1 seconds=$2 start=$SECONDS; shift 2
    echo "== $name (at most $seconds s)"
    timeout --signal=INT --kill-after=5 "$seconds" "$@" 2>&1 | tee "$out/$name.txt" | tail -n "${LINES_SHOWN:-40}"
    local status=${PIPESTATUS[0]}
    echo "== $name: exit $status after $((SECONDS - start)) s" | tee -a "$out/$name.txt"
    [ "$status" = 0 ] || failed+=("$name")
}
check() { part "$1" "$2" "$python" benchmarks/gpu_check.py "$1" --device "$device" --out "$out"; }
tests() { part "$1" "$2" "$python" -m pytest -v --tb=short -p no:cacheprovider "${@:3}"; }
trained() { # NAME SECONDS OPTION …: from text to champion; the last file a run writes says how fast and how good it was
    local name=$1 seconds=$2; shift 2
    part "$name" "$seconds" "${rnnlm[@]}" run --set "training.device=$device" --verbose "$@"
    find "$RNNLM_HOME" -name 'config.json' -path '*run*' -newer "$out/started" -exec cp {} "$out/$name-config.json" \; 2>/dev/null
}

touch "$out/started"
set -- "${@:-all}"
for name in ${*/all/kernels wide step speed profile tests kills run ptb indrnn}; do
    case $name in
    kernels) tests kernels 75 -k "not share_rows and not wide_layers" tests/rnnlm/models/test_full_recurrence.py tests/rnnlm/models/test_device_masks.py \
        tests/rnnlm/losses/test_softmax_kernel.py ;;
    wide) tests wide 45 -k "share_rows or wide_layers" tests/rnnlm/models/test_full_recurrence.py ;;
    step) tests step 60 -k "captured" tests/rnnlm/training/test_gpu.py ;;
    speed) check speed 75 ;;
    profile) check profile 25 ;;
    tests) tests tests 60 -k "not captured and not kills" tests/rnnlm/training/test_gpu.py ;;
    kills) tests kills 60 -k "kills and exact" tests/rnnlm/training/test_gpu.py ;;
    run) trained run 150 --preset gpu --corpus "$ptb" --minutes "${GPU_CHECK_MINUTES:-1}" ;;
    ptb) trained ptb 150 --preset ptb --corpus "$ptb" ;;
    indrnn) trained indrnn 200 --preset ptb-indrnn --corpus "$ptb" ;;
    *) echo "gpu_check: no part $name"; failed+=("$name") ;;
    esac
done
rm -rf "$RNNLM_HOME"
echo "gpu_check: ${#failed[@]} parts failed ${failed[*]:-}"
[ ${#failed[@]} = 0 ]
