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
# In a sparse index, gives a directory the relative path in the argument, and no files. It is below a
# directory with the same number of names, because both have the same length.
sparse() {
    l=$(echo $1 | sed 's|\.\./|zz/|g'); git commit -qam more; mkdir -p $l $(dirname $l)/keep
    echo 1 >$l/x; echo 2 >$(dirname $l)/keep/y; git add zz; git commit -qm zz
    git sparse-checkout set --sparse-index $(dirname $l)/keep
    tree=$(git rev-parse HEAD:$l); empty=$(git hash-object -t tree /dev/null)
    hex() { echo $1 | sed 's/../\\x&/g'; }
    LC_ALL=C sed -zi "s|$(hex $tree)|$(hex $empty)|g; s|$l/|$1/|g" .git/index
}
