# A repository in the served directory with a staged change and another one.
repo() {
    git init -q -b main repo; cd repo; git config user.name a; git config user.email a@example.com
    echo one >f; git add f; git commit -q -m first; echo two >f; git add f; echo three >f
}
commit() { git -c user.name=a -c user.email=a@example.com commit -q -m SECRET; }
# Also a repository outside.
other() {
    git init -q -b main ../outside/other; cd ../outside/other
    echo SECRET | tee f >../secret; git add f; commit; cd ../../site; repo
}
