package rootfs

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkMakeRemove makes what a container with a volume and three files
// stands on, and removes it.
func BenchmarkMakeRemove(b *testing.B) {
	for _, layers := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("layers=", layers), func(b *testing.B) {
			w := newWorld(b)
			s := w.spec("1-1")
			for i := range layers - 1 {
				s.Lower = append(s.Lower, w.folderIn(fmt.Sprint("layers-of-image/", i)))
			}
			s.Files = append(s.Files, File{Target: "/etc/hosts"}, File{Target: "/etc/resolv.conf"})
			s.Binds = []Bind{{Source: w.folderIn("volume"), Target: "/data", Mapped: true}}
			for b.Loop() {
				w.make(s)
				must(b, w.store.Remove(b.Context(), s.ID))
			}
		})
	}
}

// BenchmarkCheckAll looks at 100 containers.
func BenchmarkCheckAll(b *testing.B) {
	w := newWorld(b)
	for i := range 100 {
		s := w.spec(fmt.Sprint("1-", i))
		must(b, os.MkdirAll(s.Layer, 0o755))
		w.make(s)
	}
	for b.Loop() {
		if all, err := w.store.CheckAll(); err != nil || len(all) != 100 {
			b.Fatal(len(all), err)
		}
	}
}
