"""Texts that look like secrets, and texts that don't: the same for ingress, worker, logs and `verify-log`.

The secrets are put together here, so that no scanner of repositories takes them for real ones.
"""

_KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYfOC\n"

SECRETS = {
    "AWS key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "AWS key id of a session": "ASIA" + "IOSFODNN7EXAMPLE",
    "GitHub token": "ghp_" + "a1B2" * 9,
    "GitHub token of a server": "ghs_" + "a1B2" * 9,
    "GitHub fine-grained token": "github_pat_" + "11ABCDEFG0_" + "a1B2" * 12,
    "GitLab token": "glpat-" + "x9Y8-z7W6_v5U4t3S2r1",
    "Hugging Face token": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "OpenAI key": "sk-" + "T3BlbkFJ" * 5,
    "OpenAI key of a project": "sk-proj-" + "T3Bl-kFJ_" * 5,
    "Anthropic key": "sk-ant-" + "api03-" + "R2-D2_" * 9,
    "Stripe key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "Google key": "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "Slack token": "xoxb-" + "123456789012-abcdefABCDEF",
    "JSON web token": "eyJ"
    + "hbGciOiJIUzI1NiJ9."
    + "eyJ"
    + "zdWIiOiIxMjM0NTY3ODkwIn0."
    + "dozjgNryP4J3jVmNHl0w5N",
    "password in a DSN": "postgresql://trackside:" + "hunter2@db.example.org:5432/trackside",
    "password in a URL without user": "redis://:" + "hunter2@cache:6379/0",
    "password in a proxy": "http://me%40example.org:" + "p%40ss@proxy.example.org:3128",
    "password of a connection string": "host=db user=trackside password=" + "hunter2 dbname=trackside",
    "password as an option": "--db-password=" + "correct-horse",
    "password as a variable": "PGPASSWORD=" + "hunter2",
    "API key as a variable": "WANDB_API_KEY=" + "0123456789abcdef0123456789abcdef01234567",
    "token in an address": "https://example.org/data?access_token=" + "a1b2c3d4e5",
    "private key": "-----BEGIN RSA PRIVATE" + " KEY-----\n" + _KEY_BODY + "-----END RSA PRIVATE KEY-----",
    "private key, PKCS 8": "-----BEGIN PRIVATE" + " KEY-----\n" + _KEY_BODY + "-----END PRIVATE KEY-----",
    "private key of OpenSSH": "-----BEGIN OPENSSH PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXktdjE=",
}
"""What is refused in a command, found in the log, and masked where it is printed."""

CALLED_SECRETS = (
    *("token: abc", "api-key = x", '{"password": "two words"}', "Secret='s3'", "PASSWORD: " + "hunter2"),
    *("login --password hunter2", "['--db-password', 'hunter2']", "Authorization: Bearer abc"),
)
"""What is masked where it is printed, but not refused: only its name says that it is a secret."""

PLAIN = {
    "git commit": "4b9efa8d0c1e2f3a4b5c6d7e8f90a1b2c3d4e5f6",
    "SHA-256": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "UUID": "123e4567-e89b-42d3-a456-426614174000",
    "UUID of a GPU": "GPU-8f6d2a1e-4c1b-4a7e-9c55-0d4d2b1f6e7a",
    "weights by hash": "weights-q2FtcGxlLXdlaWdodHMtbmFtZQ==.safetensors",
    "weights in a bucket": "s3://models/asia/q2FtcGxlLXdlaWdodHM/checkpoint-000100.pt",
    "base64": "aGYgc2stYW50LWFwaSBBS0lBIGdob19hYmMgZXlK/+8=",
    "model of a hub": "hf_hub/meta-llama/Llama-3.1-8B-Instruct",
    "name in snake case": "hf_transformers_text_classification_baseline_v2",
    "name of a library": "sk-learn-random-forest-baseline-2026",
    "task": "my-task-classification-of-handwritten-digits-2026",
    "disk": "disk-usage-of-the-second-worker-in-the-rack",
    "risk": "risk-model_2026-01-01-run-0007-of-the-series",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "address without password": "postgresql://trackside@db.example.org:5432/trackside",
    "address with a port": "http://10.0.0.1:8080/metrics, then write to ops@example.org",
    "addresses of brokers": "PLAINTEXT://kafka-1:9092,PLAINTEXT://kafka-2:9092",
    "password that a variable holds": "postgresql://trackside:${PGPASSWORD}@db/trackside",
    "password that is masked": "postgresql://trackside:***@db/trackside",
    "option with a variable": "--password=$DB_PASSWORD --api-key=<yours>",
    "option with a file": "--password-file=/run/secrets/db --secret=/run/secrets/key",
    "options of a tokenizer": "pad_token=<pad> max_tokens=128 token_dropout=0.1",
    "public key": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----",
    "certificate": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "time": "2026-01-31T23:59:59.999999+00:00",
    "progress": "epoch 3: loss=0.12 tokens/s 1200 at a/b",
}
"""What no part of Trackside takes for a secret."""

NAMED_SECRETS = (
    *(
        ("password", "hunter2"),
        ("db_password", "hunter2"),
        ("PGPASSWORD", "hunter2"),
        ("dbPassword", "two words"),
    ),
    *(("secret", "s3cret"), ("client-secret", "s3cret"), ("api_key", "0a1b2c"), ("openaiApiKey", "0a1b2c")),
    *(
        ("aws_secret_access_key", "wJalrXUtnFEMI/K7MDENG"),
        ("token", "0a1b2c3d4e5f6a7b"),
        ("HUB_TOKEN", "a-" * 9 + "1"),
    ),
)
"""Names of fields and their texts that are secrets, by the name."""

NAMED_PLAIN = (
    *(
        ("tokenizer", "bert-base-uncased-2018-10-11"),
        ("token_count", "0a1b2c3d4e5f6a7b"),
        ("tokens", "a1" * 9),
    ),
    *(
        ("token_dropout", "0.1"),
        ("secret_share", "0a1b2c3d"),
        ("password_file", "hunter2"),
        ("key", "a1" * 9),
    ),
    *(
        ("pad_token", "<pad>"),
        ("mask_token", "[MASK]"),
        ("eos_token", "<|endoftext|>"),
        ("token", "word2vec"),
    ),
    *(("password", ""), ("password", "${PGPASSWORD}"), ("password", "$PGPASSWORD"), ("password", "<yours>")),
    *(
        ("password", "***"),
        ("password", "[redacted]"),
        ("password", "/run/secrets/db"),
        ("password", "required"),
    ),
    *(("secret", "sharing"), ("api_key", "EMPTY"), ("api_key", "not-needed"), ("secret", "vault:kv/db#key1")),
)
"""Names of fields and their texts that are none."""

PEOPLE_USE: tuple[tuple[str, object], ...] = (
    *(("max_tokens", 512), ("max_new_tokens", "2048"), ("num_tokens", 1_000_000), ("tokens_per_batch", "4k")),
    *(("pad_token", "<pad>"), ("bos_token", "<s>"), ("sep_token", "[SEP]"), ("stop_tokens", ["</s>", "###"])),
    *(("unk_token", "<|unknown|>"), ("special_tokens", {"cls_token": "[CLS]"}), ("token", "word2vec")),
    *(("tokenizer", "bert-base-uncased-2018-10-11"), ("token_type", "bpe32000"), ("token_dropout", 0.1)),
    *(("tokenizer_path", "/data/tokenizers/v2-2026"), ("prefix_token_ids", [1, 2, 3])),
    *(("primary_key", "customer_id_2"), ("foreign_key", "order_id_17"), ("sort_key", "created_at_2026")),
    *(
        ("partition_key", "user_id_4"),
        ("key", 7),
        ("key_dim", 64),
        ("key_value_heads", 8),
        ("keys", ["q1a2b3"]),
    ),
    *(("key", "train/2026/part-0001.parquet"), ("monitor_key", "val_loss_1"), ("hotkey", "ctrl+k1")),
    *(("sha256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),),
    *(("digest", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),),
    *(
        ("commit", "4b9efa8d0c1e2f3a4b5c6d7e8f90a1b2c3d4e5f6"),
        ("uuid", "123e4567-e89b-42d3-a456-426614174000"),
    ),
    *(("etag", "d41d8cd98f00b204e9800998ecf8427e"), ("cache_key", "step-7-9f86d081884c7d65"), ("seed", 7)),
    *(("password_file", "/run/secrets/db"), ("password", "${DB_PASSWORD}"), ("secret_share", 0.25)),
    *(("secret_name", "kaggle-2026"), ("api_key", "EMPTY"), ("api_key_env", "OPENAI_API_KEY_2")),
    *(("credential", "moto"), ("auth", "none"), ("passthrough", "layer-3"), ("bypass", "block4x2")),
    *(
        ("author", "m.curie1903"),
        ("private", True),
        ("access_mode", "read-only-2"),
        ("secretary", "room b12"),
    ),
)
"""Names that people use, with values, of which none is a secret."""
