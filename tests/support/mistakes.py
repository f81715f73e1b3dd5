"""Typical mistakes of people who know other tools, and what each of them wanted.

A row is the tool whose habit it is, the command as it is typed, and what the hint has to contain so
that the person gets what was wanted: an option with its value, or a command of edgebench.
"""

from __future__ import annotations

MISTAKES = (
    # benchmark_model of TensorFlow Lite
    ("benchmark_model", "bench --graph=m.tflite", "edgebench bench m.tflite"),
    ("benchmark_model", "bench m.tflite --num_threads=4", "--threads 4"),
    ("benchmark_model", "bench m.tflite --num_runs=50", "--min-queries 50"),
    ("benchmark_model", "bench m.tflite --warmup_runs=5", "--warmup 5"),
    ("benchmark_model", "bench m.tflite --min_secs=10", "--duration 10s"),
    ("benchmark_model", "bench m.tflite --max_secs=60", "--max-duration 60s"),
    ("benchmark_model", "bench m.tflite --use_xnnpack=true", "--delegate xnnpack"),
    ("benchmark_model", "bench m.tflite --use_gpu=true", "--delegate"),
    ("benchmark_model", "bench m.tflite --enable_op_profiling=true", "--profile"),
    ("benchmark_model", "bench m.tflite --input_layer_shape=1,224,224,3", "--shape NAME="),
    ("benchmark_model", "bench m.tflite --run_delay=2", "--cooldown"),
    # onnxruntime_perf_test
    ("onnxruntime_perf_test", "bench m.onnx -e cuda", "--delegate cuda"),
    ("onnxruntime_perf_test", "bench m.onnx -r 100", "--runs 100"),
    ("onnxruntime_perf_test", "bench m.onnx -t 10", "--duration 10s"),
    ("onnxruntime_perf_test", "bench m.onnx -x 4", "--threads 4"),
    ("onnxruntime_perf_test", "bench m.onnx -f batch:1", "--shape NAME="),
    ("onnxruntime_perf_test", "bench m.onnx -p profile.json", "--profile"),
    # trtexec
    ("trtexec", "bench --onnx=m.onnx", "edgebench bench m.onnx"),
    ("trtexec", "bench m.onnx --batch=8", "--shape NAME=8x"),
    ("trtexec", "bench m.onnx --iterations=100", "--min-queries 100"),
    ("trtexec", "bench m.onnx --warmUp=200", "--warmup"),
    ("trtexec", "bench m.onnx --fp16", "no option converts"),
    ("trtexec", "bench m.onnx --avgRuns=10", "--runs 10"),
    # llama-bench
    ("llama-bench", "bench -m m.tflite", "edgebench bench m.tflite"),
    ("llama-bench", "bench --model m.tflite", "edgebench bench m.tflite"),
    ("llama-bench", "bench m.tflite --repetitions 5", "--runs 5"),
    ("llama-bench", "bench m.tflite -t 8", "--threads 8"),
    ("llama-bench", "bench m.tflite --batch-size 4", "--shape NAME=4x"),
    ("llama-bench", "bench m.tflite --output csv", "-o csv"),
    ("llama-bench", "bench m.tflite --device pi5", "--on pi5"),
    ("llama-bench", "bench m.tflite --list-devices", "edgebench devices"),
    ("llama-bench", "bench m.tflite --cpu-mask 0xc", "--cpus"),
    ("llama-bench", "bench m.tflite -ngl 99", "--delegate"),
    # hyperfine
    ("hyperfine", "bench a.tflite b.tflite -w 3", "--warmup 3"),
    ("hyperfine", "bench m.tflite --min-runs 20", "--runs 20"),
    ("hyperfine", "bench m.tflite --export-json r.json", "--json > r.json"),
    ("hyperfine", "bench m.tflite --export-markdown r.md", "--export r.md"),
    ("hyperfine", "bench m.tflite --export-csv r.csv", "--export r.csv"),
    ("hyperfine", "bench m.tflite --export r.json", "--json > r.json"),
    # pytest, and its plugins
    ("pytest", "bench m.tflite -n 4", "--runs"),
    ("pytest", "bench m.tflite -k int8", "edgebench bench"),
    ("pytest", "bench --lf", "edgebench campaign resume"),
    ("pytest", "bench m.tflite --benchmark-json r.json", "--json > r.json"),
    ("pytest", "bench m.tflite --junitxml r.xml", "--export r.xml"),
    ("pytest", "bench m.tflite --collect-only", "edgebench campaign plan"),
    ("pytest", "test m.tflite", "edgebench bench m.tflite"),
    # kubectl
    ("kubectl", "get runs", "edgebench runs"),
    ("kubectl", "get devices", "edgebench devices"),
    ("kubectl", "describe 20260101-000000-00000000", "edgebench show 20260101-000000-00000000"),
    ("kubectl", "delete 20260101-000000-00000000", "edgebench rm 20260101-000000-00000000"),
    ("kubectl", "logs last", "edgebench show last"),
    ("kubectl", "apply farm.toml", "edgebench campaign run farm.toml"),
    ("kubectl", "runs -l night", "--tag night"),
    ("kubectl", "runs -o wide", "csv"),
    ("kubectl", "devices -w", "--watch"),
    # docker
    ("docker", "run m.tflite", "edgebench bench m.tflite"),
    ("docker", "ps", "edgebench devices"),
    ("docker", "inspect last", "edgebench show last"),
    ("docker", "images", "edgebench runs"),
    ("docker", "bench m.tflite --cpuset-cpus 0,1", "--cpus 0,1"),
    ("docker", "bench m.tflite --memory 2g", "--memory-limit"),
    ("docker", "runs -a", "edgebench runs"),
    ("docker", "stats", "edgebench devices"),
    # gh and git
    ("gh", "list", "edgebench runs"),
    ("gh", "view last --web", "edgebench show last"),
    ("gh", "show last --web", "edgebench report last --open"),
    ("gh", "runs --jq .runs", "--json | jq .runs"),
    ("gh", "history -L 5", "--last 5"),
    ("git", "diff set-a set-b", "edgebench compare set-a --against set-b"),
    ("git", "log", "edgebench runs"),
    # uv and pip
    ("uv", "add pi@pi5", "edgebench deploy"),
    ("uv", "clean", "edgebench prune"),
    ("uv", "self update", "pip install --upgrade edgebench"),
    ("uv", "bench m.tflite --no-progress", "-q"),
    ("uv", "bench m.tflite --verbos", "--verbose"),
    # typing errors, and words of edgebench in the wrong place
    ("typing", "bnech m.tflite", "edgebench bench"),
    ("typing", "m.tflite", "edgebench bench m.tflite"),
    ("typing", "bench m.tflite --thread 2", "--threads 2"),
    ("typing", "bench dir.tflite", "path of a .tflite or .onnx file"),
)
