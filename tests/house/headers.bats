# Headers stand on their own.

@test "tend.h compiles alone as C99" {
    echo '#include <tend.h>' |
        gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$TEND_SOURCE/include" -x c -
}

@test "tend.h compiles alone as C++11" {
    echo '#include <tend.h>' |
        g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$TEND_SOURCE/include" -x c++ -
}

@test "tend.h may be included twice" {
    printf '#include <tend.h>\n#include <tend.h>\n' |
        gcc -std=c99 -Wpedantic -Werror -fsyntax-only -I "$TEND_SOURCE/include" -x c -
}

@test "every internal header compiles alone" {
    cd "$TEND_SOURCE/src"
    for header in */*.h; do
        echo "#include \"$header\"" |
            gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only \
                -I . -I ../include -I "$TEND_BUILD/src" -I /usr/include/postgresql -x c -
    done
}
