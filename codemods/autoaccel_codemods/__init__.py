"""The built-in rules, named as the rule: a module each, or a package where a rule is large."""
