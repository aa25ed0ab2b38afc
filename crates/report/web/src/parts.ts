// Outcomes of operations: the one colour code of the page.

/** In the order in which bars are filled: what was in vain first. */
export const PARTS = ["missed", "repeated", "needed", "failed", "unnamed"] as const;
export type Part = (typeof PARTS)[number];

/** What each means, for legends. */
export const MEANING: Record<Part, string> = {
    missed: "the name is absent",
    repeated: "had succeeded before",
    needed: "first success for an operation and path",
    failed: "for another reason than absence",
    unnamed: "pipes, sockets, unknown descriptors",
};
