"""Batches that are looked up whole, instead of sample by sample: on the host, or on the device they go to.

A plain loader asks its dataset for one sample after the other and stacks them: microseconds a sample where the data
are tensors in memory, tens of them where every image goes through PIL. Where the samples are known to be nothing but
elements of tensors, arrays or lists (with conversions that are the same for a batch), one lookup gives the same
batch. Everything else stays torch's own: the iterator, the sampler and what it draws, the order, the last batch.

Whatever is not understood is left to torch. The first batch of every loader is made both ways and compared bit for
bit, random streams included; a difference leaves the loader to torch for good.

    whole_batches         the verb: a loader whose batches are looked up whole
    eligible_loaders      which loaders, and their iterators: torch's own with another fetcher
    batch_fetcher         the fetcher: by the plan, or by torch where a batch is unfit; the proof
    batch_equality        comparing batches; the states of the random generators
    torch_datasets        what a dataset's samples are made of: torch's own datasets
    torchvision_datasets  torchvision's datasets and transforms
    transformed_images    images that PIL resizes: once, then they are kept
    image_transforms      the other transforms for a batch of bytes
    getitem_interpreter   datasets that the script wrote
    function_source       the text of a method
    symbolic_rows         what may stand in a `__getitem__`: looking up and computing
    dtype_conversions     and conversions
    mutation_guard        noticing that a dataset, or a transform, is no longer what was read
    sample_structure      the structure of a sample, and the batch made of it
    columns               tensors, arrays and lists that rows are looked up in
    row_indices           the indices of a batch
    sampler_slices        those of a pass, drawn as one tensor
    device_placement      what is kept on a device, and what is sent to it
"""
