#!/usr/bin/env python3
"""layers.py ROOT: every #include "…" follows an edge of the folder table in docs/architecture.md (transitively)."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
edges = {}
for line in (root / 'docs/architecture.md').read_text().splitlines():
    row = re.match(r'\| `src/(\w+)/` \|.*\| ([\w, ]*) ?\|$', line)
    if row:
        edges[row[1]] = [name.strip() for name in row[2].split(',') if name.strip()]


def reach(folder):
    seen, todo = {folder}, [folder]
    while todo:
        for name in edges[todo.pop()]:
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


bad = [f'{folder}: no row in docs/architecture.md' for folder in
       sorted(p.name for p in (root / 'src').iterdir() if p.is_dir() and any(p.glob('*.[ch]'))) if folder not in edges]
bad += [f'{name}: named in docs/architecture.md, has no row' for names in edges.values() for name in names
        if name not in edges]
# The two that see a library: libyaml behind one file, CUDA behind one folder.
private = {'yaml.h': 'src/yaml/document.c', 'cuda_runtime_api.h': 'src/device/', 'cuda.h': 'src/device/', 'dlfcn.h': 'src/device/'}
files = 0
for path in sorted([*root.glob('src/*/*.[ch]'), *root.glob('src/*/*.def'), *root.glob('include/plimsoll/*.h')]):
    name = path.relative_to(root).as_posix()
    folder = name.split('/')[1]
    if bad and folder not in edges and folder != 'plimsoll':
        continue
    allowed = {'plimsoll'} if folder == 'plimsoll' else reach(folder) | {'plimsoll'}
    files += 1
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', line)
        if not found:
            continue
        if found[2]:
            owner = private.get(found[2])
            if owner and not name.startswith(owner):
                bad.append(f'{name}:{number}: <{found[2]}> belongs to {owner}')
        elif '/' not in found[1]:
            bad.append(f'{name}:{number}: write "{folder}/{found[1]}", rooted at src')
        elif found[1].split('/')[0] not in allowed:
            bad.append(f'{name}:{number}: {folder} may not include "{found[1]}"')
print('\n'.join(bad) or f'{files} files follow the table')
sys.exit(1 if bad or files == 0 else 0)
