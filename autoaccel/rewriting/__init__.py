"""From findings to rewritten text. Rules speak of `ast` nodes; LibCST carries out their edits, formatting kept.

The diff of the two texts is a report: `autoaccel.reports.diff`.

Rules:
    rule         what a rule is: metadata, documentation, the function that finds opportunities
    registry     the rules there are
    packs        distributions that announce rules
    suppression  comments that tell the tool to leave code alone

One text, in this order:
    engine       analyse, plan, apply, check
    linting      the same, stopped before it applies
    admission    findings that may be applied: outside of tests, exact enough
    places       where the nodes of the `ast` tree are in the text
    plan         which findings can be applied together
    cell_limits  what edits may not do in a notebook
    apply        one LibCST transformer, one traversal
    black_style  one statement, broken into lines as Black does
    line_breaks  lines of edited statements, broken as the formatter of the file would break them
    formatters   how a project has its code laid out, as its configuration says
    check        the self-check: what a rewrite must not have done
    newer_syntax  which Python a text needs that this one cannot read
    freed_imports  imports that the result no longer needs
    comments     edits of comments, on the text
    baseline     comments beside everything that is found, so that nothing more is

Pieces of `apply`:
    layout       where the nodes of LibCST's tree are in the text
    blocks       statements inserted, wrapped and removed within one block
    arguments    call arguments added and dropped
    imports      where an import belongs
    fragments    new code as LibCST nodes
    disguise     texts that LibCST would not give back as they are

What is said of it:
    record       findings as plain data
    recording    findings as records
    line_origins  where the lines of a later round stood in the file
    wording      the edits of a finding in words
"""
