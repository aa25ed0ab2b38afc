# ssh and its keys below the root: owners and modes that it insists on, known hosts, configuration, a proxy command.

plant() {
    mkdir -p env/work/ssh && echo end >env/text && chmod 700 env/work/ssh
    ssh-keygen -q -t ed25519 -N '' -C key -f env/work/ssh/id
    printf 'Host there\n  HostName 192.0.2.1\n  ProxyCommand echo proxied; false\n  UserKnownHostsFile env/work/ssh/known\n  IdentityFile env/work/ssh/id\n' >env/work/ssh/config
    chmod 600 env/work/ssh/config
    printf 'other %s\nthere %s\n' "$(cut -d' ' -f1,2 env/work/ssh/id.pub)" "$(cut -d' ' -f1,2 env/work/ssh/id.pub)" >env/work/ssh/known
    cp env/work/ssh/id env/work/ssh/open && chmod 644 env/work/ssh/open
}

use() {
    ssh -V 2>&1 | cut -c1-7
    ssh -G -F env/work/ssh/config there | grep -e '^hostname' -e '^identityfile' -e '^userknown'
    ssh -F env/work/ssh/config -o BatchMode=yes there true >/dev/null 2>&1; echo $?
    [ "$(ssh-keygen -y -f env/work/ssh/id | cut -d' ' -f2)" = "$(cut -d' ' -f2 env/work/ssh/id.pub)" ] && echo same key
    ssh-keygen -y -f env/work/ssh/open 2>&1 | grep -o 'UNPROTECTED\|bad permissions'
    ssh-keygen -F there -f env/work/ssh/known | grep -c there
    ssh-keygen -R other -f env/work/ssh/known >/dev/null 2>&1
    cut -d' ' -f1 env/work/ssh/known env/work/ssh/known.old && stat -c '%a %h' env/work/ssh/known
    mv env/work/ssh/known.old env/work/ssh/known
    eval "$(ssh-agent -s -a "$PWD/env/work/agent")" >/dev/null
    SSH_AUTH_SOCK=$PWD/env/work/agent ssh-add -q env/work/ssh/id && SSH_AUTH_SOCK=$PWD/env/work/agent ssh-add -l | cut -d' ' -f1,3
    kill "$SSH_AGENT_PID"
    while [ -e env/work/agent ]; do sleep 0.01; done
    cat env/text
}

"$1"
