#!/usr/bin/env python3
"""banned.py ROOT: functions that this code does without, and where the few exceptions are."""
import pathlib
import re
import sys

EVERYWHERE = ['atoi', 'atol', 'atof', 'strtok', 'sprintf', 'vsprintf', 'strcpy', 'strcat', 'gets', 'alloca', 'setlocale']
MALLOC = ['malloc', 'calloc', 'realloc', 'free', 'strdup', 'strndup', 'asprintf']
# The library never prints, exits or reads the environment.
LIBRARY = ['printf', 'puts', 'putchar', 'perror', 'exit', '_exit', 'abort', 'getenv', 'secure_getenv']
EXCEPT = {
    'src/device/child.c': ['_exit'],  # ends the process that it forked
    'src/base/arena.c': MALLOC + ['abort'],  # the only caller of malloc; its default handler aborts
    'src/device/cudnn_process.c': ['_exit'],  # ends the process that it forked
}

root = pathlib.Path(sys.argv[1])
bad, files = [], 0
for path in sorted(root.glob('src/*/*.[ch]')):
    name = path.relative_to(root).as_posix()
    words = EVERYWHERE + MALLOC + ([] if name.startswith('src/cli/') else LIBRARY)
    words = [w for w in words if w not in EXCEPT.get(name, [])]
    text = path.read_text()
    # comments and literals become blanks of the same shape, so that line numbers stay
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S)
    files += 1
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r'(?<![\w.>])(\w+)\s*\(', line):
            if word in words:
                bad.append(f'{name}:{number}: {word}()')
        if not name.startswith('src/cli/') and re.search(r'\bstd(err|out)\b', line) and name not in EXCEPT:
            bad.append(f'{name}:{number}: the library does not print')
print('\n'.join(bad) or f'{files} files keep to the rules')
sys.exit(1 if bad or files == 0 else 0)
