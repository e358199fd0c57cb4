# A repository with a commit and a modified file, and functions for the lines of git.txt.
git init -q -b main; git config user.name a; git config user.email a@example.com
echo one >f.txt; git add f.txt; git commit -q -m first; echo two >f.txt
sign() {
    commit=$(git cat-file commit HEAD |
        sed "/^committer/a gpgsig -----BEGIN $1-----\n \n -----END $1-----" |
        git hash-object -t commit -w --stdin)
    git update-ref HEAD $commit
}
submodule() {
    git init -q sub; git -C sub config user.name a; git -C sub config user.email a@b.c
    echo s >sub/s.txt; git -C sub add s.txt; git -C sub commit -q -m s
    git -c protocol.file.allow=always submodule add -q ./sub sub 2>/dev/null || git add sub
    git -C sub config core.fsmonitor RUN; echo more >sub/s.txt
}
hook() {
    mkdir -p .git/hooks; cp ../run .git/hooks/post-index-change
    sed -i 's|$(dirname .*)/ran|../ran|' .git/hooks/post-index-change
    sleep 1.1; git checkout -q f.txt; touch -d '2000-01-01' f.txt
}
