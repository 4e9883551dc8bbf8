"""`accel.prefetch`, `accel.num_workers`, `accel.pin_memory`, `accel.seed_worker`: batches before they are asked for.

Modules:
    prefetcher          batches under way to the device before the loop asks
    copy_stream         the side stream for copies, and the events that order it
    image_bytes         images that come as bytes, and are normalised where they go
    rebuild_batch       a batch with some of its tensors replaced
    loader_settings     how many workers the machine has room for; pinning
    managed_epoch       by whom the batches of an epoch are fetched, decided meanwhile
    stream_epoch        the same for a stream, which changes hands once
    stream_shards       which items of a stream are a worker's to make samples of
    persistent_workers  how an epoch begins whose workers are kept
    loader_statistics   what is known of a loader: fetches, steps, decisions
    worker_count        how many workers pay off: arithmetic
    background_fetch    a thread that fetches one batch ahead
    worker_seeds        the generators that a dataset keeps, seeded in each worker
    torch_iterators     torch's own iterators, made in another way
    glibc_malloc        memory that a step frees is kept for the next one, where the CPU trains
"""
