# git in a repository below the root: status, commit, branch, rebase, stash, clone, gc.

plant() {
    mkdir env/repo env/work && cd env/repo && setting
    git init -q -b main .
    for number in 1 2 3; do
        mkdir -p d$number
        echo $number >d$number/file
        git add .
        git commit -q -m "commit $number"
    done
    printf '#!/bin/sh\necho hook ran\n' >.git/hooks/post-commit
    chmod +x .git/hooks/post-commit
    rm .git/index
}

setting() {
    export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
}

use() {
    setting
    git -C env/repo log --oneline --stat
    git -C env/repo ls-tree -r HEAD
    rm -rf env/work/* && cp -a env/repo env/work/repo && cd env/work/repo
    git reset -q --hard && git status --short
    echo changed >>d1/file
    echo new >d2/new
    git diff --stat
    git status --short
    git add -A
    git commit -m "next" 2>&1
    git checkout -q -B side HEAD~1 && echo side >side && git add side && git commit -q -m side
    git rebase -q main 2>&1
    git mv d3/file d3/moved && git stash -q && git stash pop -q && git status --short
    git reset -q --hard && git checkout -q main && git merge -q side 2>&1
    git gc -q && git fsck --strict && git log --oneline
    git clone -q . ../clone && git -C ../clone log --oneline -1
    git clone -q --shared . ../shared 2>&1 && git -C ../shared status --short && git -C ../shared rev-parse HEAD
    git worktree add -q ../tree side~1 2>&1 && ls ../tree && git worktree remove ../tree
    git clone -q ../../repo ../of-repo && ls ../of-repo
    rm -rf ../*
}

"$1"
