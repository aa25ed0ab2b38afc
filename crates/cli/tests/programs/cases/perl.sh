# Perl: modules and data below the root, a forked child, a file rewritten in place.

plant() {
    mkdir -p env/lib/Deep
    printf 'package Deep::Part;\nuse strict;\nsub name { return __FILE__ }\n1;\n' >env/lib/Deep/Part.pm
    printf 'one\ntwo\n' >env/data
    cat >env/run.pl <<'END'
use strict; use warnings; use FindBin; use lib "$FindBin::Bin/lib"; use Deep::Part;
use File::Find; use File::Temp qw(tempfile); use POSIX ();
print Deep::Part::name(), "\n";
my @found; find({wanted => sub { push @found, $File::Find::name }, no_chdir => 1}, "$FindBin::Bin");
print join(" ", sort @found), "\n";
my $child = fork() // die; if (!$child) { exec "cat", "$FindBin::Bin/data" } waitpid $child, 0; print $? >> 8, "\n";
{ local ($^I, @ARGV) = ("", "$FindBin::Bin/data"); while (<>) { s/two/three/; print } }
open my $data, "<", "$FindBin::Bin/data" or die; print <$data>; close $data;
my ($handle, $name) = tempfile(DIR => $FindBin::Bin, UNLINK => 1); print $handle "x" x 10; close $handle; print -s $name, "\n";
rename "$FindBin::Bin/data", "$FindBin::Bin/moved" or die; print -e "$FindBin::Bin/data" ? "there" : "gone", "\n";
eval { require Absent::Module }; print $@ =~ /Can't locate/ ? "absent\n" : $@;
END
}

use() {
    perl env/run.pl
    rm env/moved && printf 'one\ntwo\n' >env/data
}

"$1"
