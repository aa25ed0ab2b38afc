// Numbers and names as people read them; the same forms as in the terminal (`number.rs`).

const NARROW_SPACE = "\u202f";

/** `12345` as `12 345`. */
export function grouped(number: number): string {
    return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, NARROW_SPACE);
}

/** `1 path`, `2 paths`. */
export function counted(number: number, what: string, several = `${what}s`): string {
    return `${grouped(number)} ${number === 1 ? what : several}`;
}

/** A share of the whole. What is there is never `0 %`, and what is not all is never `100 %`. */
export function percent(part: number, whole: number): string {
    const share = whole === 0 ? 0 : Math.round((part * 100) / whole);
    if (share === 0 && part > 0) return `<1${NARROW_SPACE}%`;
    if (share >= 100 && part < whole) return `>99${NARROW_SPACE}%`;
    return `${share}${NARROW_SPACE}%`;
}

function threeDigits(value: number): string {
    if (value === 0) return "0";
    if (value < 9.995) return value.toFixed(2);
    if (value < 99.95) return value.toFixed(1);
    return grouped(value);
}

/** A length of time with three digits that count. */
export function seconds(time: number): string {
    if (time === 0) return `0${NARROW_SPACE}s`;
    for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["us", 1e-6]] as const) {
        if (time >= scale) return `${threeDigits(time / scale)}${NARROW_SPACE}${unit}`;
    }
    return `${threeDigits(time * 1e9)}${NARROW_SPACE}ns`;
}

/** An amount of data with three digits that count. */
export function bytes(amount: number): string {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = 0;
    while (power + 1 < units.length && amount >= 999.5) {
        amount /= 1024;
        power += 1;
    }
    return `${power === 0 ? grouped(amount) : threeDigits(amount)}${NARROW_SPACE}${units[power]}`;
}

/** Operations a second: beyond three digits it is noise. */
export function rate(perSecond: number): string {
    const scale = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(perSecond, 1))) - 2);
    return grouped(Math.round(perSecond / scale) * scale);
}

/** Short, for the ticks of an axis: `15k`. */
export function short(number: number): string {
    if (number >= 1e6) return `${number / 1e6}M`;
    return number >= 1e4 ? `${number / 1e3}k` : grouped(number);
}

// The same set as `is_hidden` in `crates/trace/src/path.rs`; a test compares them.
const HIDDEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text with every character shown that is not seen, or that changes how its neighbours are seen. */
export function visible(text: string): string {
    return text.replace(HIDDEN, (hidden) => `\\u{${hidden.charCodeAt(0).toString(16)}}`);
}

/** A command as it could be typed again. */
export function command(words: string[]): string {
    const quoted = (word: string) =>
        /^[\p{L}\p{N}/._\-+,=:@%]+$/u.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
    return words.map((word) => visible(quoted(word))).join(" ");
}
