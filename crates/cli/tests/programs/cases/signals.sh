# Shell jobs: background, pipes, traps, here-documents, subshells, redirections of every kind into the tree.

plant() {
    mkdir -p env/d
    echo one >env/d/one
}

use() {
    cd env/d
    trap 'echo trapped' USR1; kill -USR1 $$; (sleep 0.02; exit 3) & wait $!; echo $?
    cat <<END | tr a-z A-Z | tee -a piped
here $(cat one)
END
    cat piped; { echo out; echo err >&2; } >both 2>&1; cat both; echo more >>both; cat both; : >both; cat both
    (set -C; echo no >one) 2>/dev/null || echo kept; set +C; echo y >|one; cat one; exec 5<>one; read -r line <&5; echo "$line z" >&5; exec 5>&-; cat one
    mkdir -p x/y/z && cd x/y/z && echo deep >../../../deep && cd - >/dev/null && cat deep && rm -r x && cd "$PWD"
    for file in *; do echo "$file"; done; echo ab* o?e [a-c]*; test -s both; echo $?; test one -nt deep; test one -ef one; echo $?
    timeout 0.05 sleep 5; echo $?; sort -o one one deep && cat one; split -l 1 one part- && ls; xargs rm <<END
part-aa part-ab part-ac
END
    yes | head -c 100000 >large; wc -c <large; dd if=large of=large bs=1000 seek=200 count=1 conv=notrunc 2>/dev/null; wc -c <large; tail -c 5 large; rm -f large deep both piped; echo one >one
}

"$1"
