# Java: classes from a directory and from an archive below the root, resources, memory-mapped and moved files.

plant() {
    mkdir env/classes
    cat >Main.java <<'END'
import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.util.*;
public class Main {
    public static void main(String[] words) throws Exception {
        Path here = Path.of("env");
        System.out.println(new String(Main.class.getResourceAsStream("text").readAllBytes()).trim());
        try { Class.forName("Absent"); } catch (ClassNotFoundException e) { System.out.println("absent"); }
        Path file = here.resolve("work/mapped");
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, 5000);
            map.put("mapped".getBytes()); map.force();
        }
        System.out.println(Files.size(file) + " " + new String(Arrays.copyOf(Files.readAllBytes(file), 6)));
        Files.move(file, here.resolve("work/moved"), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        try (var files = Files.walk(here)) { files.map(Path::toString).sorted().forEach(System.out::println); }
        System.out.println(Files.getPosixFilePermissions(here.resolve("work/moved")).contains(java.nio.file.attribute.PosixFilePermission.OWNER_WRITE));
        Process child = new ProcessBuilder("cat", "env/classes/text").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()) + child.waitFor() + "\n");
    }
}
END
    mkdir env/work
    javac -d env/classes Main.java
    echo resource >env/classes/text
    jar -c -f env/main.jar --date=2026-01-01T00:00:00Z -C env/classes .
    rm Main.java
}

use() {
    for place in env/classes env/main.jar; do java -XX:TieredStopAtLevel=1 -cp $place Main; done
}

"$1"
