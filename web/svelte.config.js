// Fragments are built with createElement: the page never sets innerHTML, so Trusted Types need no policy.
export default { compilerOptions: { runes: true, fragments: "tree" } };
