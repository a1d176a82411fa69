"""The ways through the instructions of a kernel (tests/offline/budget): its loops, and what each turn of one passes."""
import re


def find_ways(instructions, labels):
    """Which instructions may come after each one. Where BRA.DIV goes lanes have come apart: off the common path."""
    ways = []
    for i, instruction in enumerate(instructions):
        follows = not re.match(r"(BRA|CALL\S*) `\(\.L|EXIT$|RET|s_(branch|endpgm|setpc)", instruction.text)
        ways.append([i + 1] if follows and i + 1 < len(instructions) else [])
        if instruction.is_branch() and instruction.target in labels and instruction.operation != "BRA.DIV":
            ways[i].append(labels[instruction.target])
    return ways


def cycles(nodes, ways):
    """The strongly connected parts of these that hold a cycle (Kosaraju: an order by the ends of a walk, then a walk
    backwards)."""
    order, seen = [], set()
    for start in nodes:
        stack = [] if start in seen else [(start, iter(ways[start]))]
        seen.add(start)
        while stack:
            here, rest = stack[-1]
            following = next((way for way in rest if way in nodes and way not in seen), None)
            if following is None:
                order.append(here)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(ways[following])))
    before = {one: [] for one in nodes}
    for one in nodes:
        for way in ways[one]:
            if way in nodes:
                before[way].append(one)
    for start in reversed(order):
        part, stack = set(), [start]
        while stack:
            one = stack.pop()
            if one in seen:
                seen.remove(one)
                part.add(one)
                stack += before[one]
        if len(part) > 1:
            yield part


def find_loops(instructions, labels):
    """The instructions of each loop, the smallest first; those with the same head are one. A loop may be entered in
    more places than one (Steensgaard: Sequentializing program dependence graphs, 1993): inside it are those that are
    left without the ways back to these."""
    ways = find_ways(instructions, labels)
    loops, todo = [], [(set(range(len(ways))), ways)]
    while todo:
        nodes, ways_here = todo.pop()
        for part in cycles(nodes, ways_here):
            loops.append(frozenset(part))
            entries = {way for one, following in enumerate(ways) if one not in part for way in following} & part
            entries = entries or {min(part)}  # the kernel begins with it, or nothing comes to it
            inner = [[way for way in following if way not in entries] for following in ways_here]
            todo.append((part, inner))
    return sorted(loops, key=len)


def passed_always(loop, instructions, labels):
    """Instructions of a loop that no turn goes round: they are on the common path, whatever place the compiler gives
    them. Without one of them no way leads from the loop's head back to it."""
    ways = find_ways(instructions, labels)
    entries = {way for one, following in enumerate(ways) if one not in loop for way in following} & loop
    head = min(entries, default=min(loop))
    ends = {one for one in loop if len(ways[one]) != 1 or ways[one] != [one + 1]}
    starts = {way for one in ends for way in ways[one]} | {head}
    found, block = set(), []
    for one in sorted(loop):
        if block and (one in starts or one != block[-1] + 1):
            block = []
        if not block and not comes_back(head, one, loop, ways):
            found.add(one)
        elif block and block[0] in found:
            found.add(one)
        block.append(one)
    return found


def comes_back(head, without, loop, ways):
    """Whether a way leads from a loop's head back to it and not through `without`."""
    todo, seen = [head] if head != without else [], set()
    while todo:
        for way in ways[todo.pop()]:
            if way == head:
                return True
            if way in loop and way != without and way not in seen:
                seen.add(way)
                todo.append(way)
    return False
