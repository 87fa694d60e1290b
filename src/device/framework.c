/*
 * device/framework.c - what a process of PyTorch's takes of the GPU beside its tensors
 *
 * PyTorch loads its kernels as they are first used, and nobody but PyTorch knows them. So the child becomes a Python that trains a small
 * model of the operators that most models have, in mixed precision, and says what its allocator has reserved and what the device then has
 * free. The watchdog and the parent's death end it as they end any child.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/framework.h"

/* argv[1]: the descriptor to speak to; argv[2]: the GPU's number */
static const char script[] =
    "import os, sys\n"
    "def say(text):\n"
    "    os.write(int(sys.argv[1]), (text + '\\n').encode())\n"
    "try:\n"
    "    import torch\n"
    "    from torch import nn\n"
    "    say('alive')\n"
    "    torch.cuda.set_device(int(sys.argv[2]))\n"
    "    class Small(nn.Module):\n"
    "        def __init__(self):\n"
    "            super().__init__()\n"
    "            self.words = nn.Embedding(1000, 256)\n"
    "            self.norm = nn.LayerNorm(256)\n"
    "            self.qkv = nn.Linear(256, 768)\n"
    "            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)\n"
    "            self.drop, self.head = nn.Dropout(0.1), nn.Linear(256, 1000)\n"
    "            self.conv, self.batch = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)\n"
    "        def forward(self, ids):\n"
    "            x = self.norm(self.words(ids))\n"
    "            q, k, v = (t.view(*t.shape[:2], 4, 64).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))\n"
    "            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    "            y = y.transpose(1, 2).reshape(x.shape)\n"
    "            x = x + self.drop(self.down(nn.functional.gelu(self.up(y))))\n"
    "            z = nn.functional.max_pool2d(torch.relu(self.batch(self.conv(x.unsqueeze(1)))), 2)\n"
    "            return self.head(x), torch.softmax(z.flatten(1).float(), -1).sum()\n"
    "    net = Small().cuda()\n"
    "    step, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler('cuda')\n"
    "    for i in range(3):\n"
    "        ids = torch.randint(0, 1000, (4, 128)).cuda()\n"
    "        with torch.autocast('cuda', dtype=torch.float16):\n"
    "            out, extra = net(ids)\n"
    "            loss = nn.functional.cross_entropy(out.flatten(0, 1), ids.flatten()) + extra\n"
    "        scaler.scale(loss).backward()\n"
    "        scaler.unscale_(step)\n"
    "        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
    "        scaler.step(step)\n"
    "        scaler.update()\n"
    "        step.zero_grad(set_to_none=True)\n"
    "    torch.cuda.synchronize()\n"
    "    say('process %d %d' % (torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]))\n"
    "except Exception as error:\n"
    "    say('error ' + ('%s: %s' % (type(error).__name__, error)).replace('\\n', ' ')[:200])\n";

void job_framework(const struct child_voice *voice, const void *what)
{
    const struct framework_job *job = what;
    int flags = fcntl(voice->out, F_GETFD);
    char out[16], ordinal[16];

    snprintf(out, sizeof out, "%d", voice->out);
    snprintf(ordinal, sizeof ordinal, "%d", job->ordinal);
    if (flags >= 0 && fcntl(voice->out, F_SETFD, flags & ~FD_CLOEXEC) == 0)
        execlp(job->python, job->python, "-c", script, out, ordinal, (char *)NULL);
    child_say(voice, "error %s cannot be run: %s", job->python, strerror(errno));
}
