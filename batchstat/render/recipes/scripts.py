"""Templates of training scripts, with placeholders."""

HEAD = '''"""Train on the batches that batchstat simulated: {spec}.

Start it with: {start}
"""

{imports}

{script}'''

SCRIPT = """EPOCHS, WORKERS = 1, 0
LENGTHS = {lengths}
{ranks}

tokenizer = {tokenizer}
{template}if tokenizer.pad_token is None:
    tokenizer.add_special_tokens({{"pad_token": "<pad>"}})

samples = read_samples(LENGTHS)  # or your own dataset, record by record


def encode(sample):
    return {encode}


{collate}

# A tiny model, so that the script runs as it is: replace it with yours.
config = GPT2Config(
    vocab_size=len(tokenizer),
    n_positions={positions},
    n_embd=32,
    n_layer=1,
    n_head=2,
    pad_token_id=tokenizer.pad_token_id,
    bos_token_id=tokenizer.pad_token_id,
    eos_token_id=tokenizer.pad_token_id,{labels}
)
model = {model}.from_config(config)

sampler = BatchSampler(
    LENGTHS,
    {quoted},
    rank=rank,
    world_size=world_size,{settings}
)
sampler.check(samples)
{loop}"""

LOADER = """loader = DataLoader(
    samples, batch_sampler=sampler, collate_fn=collate, num_workers=WORKERS
)
"""

TORCH = """
if world_size > 1:
    torch.distributed.init_process_group()
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for epoch in range(sampler.epoch, EPOCHS):
    sampler.set_epoch(epoch)
    for inputs, batch in zip(loader, sampler.batches()):
        # Gradients are synchronised once per step: ranks may differ in its number of batches.
        waits = world_size > 1 and not batch.ends_step
        with model.no_sync() if waits else nullcontext():
            loss = model(**inputs).loss
            # Weighted, so that the gradient is that of the mean over the whole step{about}.
            (loss * batch.{weight}).backward()
        if batch.ends_step:
            optimizer.step()
            optimizer.zero_grad()
        # A checkpoint stores sampler.state_dict(consumed=batch.number + 1), after any batch.
    print(f"rank {{rank}}, epoch {{epoch}}: {{len(sampler)}} batches")
if world_size > 1:
    torch.distributed.destroy_process_group()
"""

ACCELERATE = """
# The loader is not prepared: the sampler already shards across ranks.
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer = accelerator.prepare(model, optimizer)
for epoch in range(sampler.epoch, EPOCHS):
    sampler.set_epoch(epoch)
    for inputs, batch in zip(loader, sampler.batches()):
        inputs = {{key: value.to(accelerator.device) for key, value in inputs.items()}}
        # Gradients are synchronised once per step: ranks may differ in its number of batches.
        with nullcontext() if batch.ends_step else accelerator.no_sync(model):
            loss = model(**inputs).loss
            # Weighted, so that the gradient is that of the mean over the whole step{about}.
            accelerator.backward(loss * batch.{weight})
        if batch.ends_step:
            optimizer.step()
            optimizer.zero_grad()
        # A checkpoint stores sampler.state_dict(consumed=batch.number + 1), after any batch.
    print(f"rank {{rank}}, epoch {{epoch}}: {{len(sampler)}} batches")
accelerator.end_training()
"""

RANKS = {
    "torch": 'rank = int(os.environ.get("RANK", "0"))\n'
    'world_size = int(os.environ.get("WORLD_SIZE", "1"))',
    "accelerate": "accelerator = Accelerator(cpu=not torch.cuda.is_available())\n"
    "rank, world_size = accelerator.process_index, accelerator.num_processes",
}

TRAINER = '''

class Batches(DataLoader):
    """A loader that passes the epoch to its sampler."""

    def set_epoch(self, epoch):
        self.batch_sampler.set_epoch(epoch)


class BatchedTrainer(Trainer):
    """Uses the loader as it is: the sampler already shards across ranks."""

    def get_train_dataloader(self):
        return Batches(
            samples, batch_sampler=sampler, collate_fn=collate, num_workers=WORKERS
        )


arguments = TrainingArguments(
    output_dir="trained",
    num_train_epochs=EPOCHS,
    gradient_accumulation_steps={gradient_accumulation_steps},
    remove_unused_columns=False,
    save_strategy="no",
    report_to=[],
)
trainer = BatchedTrainer(model, arguments, train_dataset=samples)
trainer.train()
print(f"rank {{rank}}: {{len(sampler)}} batches per epoch, {{trainer.state.global_step}} steps")
'''

FLAT = """# Samples concatenated in one row, the positions of each from 0: for attention that
# uses these to keep samples apart, such as flash attention.
flatten = DataCollatorWithFlattening(return_tensors="pt")


def collate(batch):
    return flatten([{"input_ids": encode(sample)} for sample in batch])
"""
