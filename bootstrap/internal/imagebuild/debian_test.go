package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/fileid"
)

const simulation = `Reading package lists...
The following NEW packages will be installed:
  libgmp10 nftables
Inst libgmp10 (2:6.2.1+dfsg1-1.1 Debian:12.15/oldstable [amd64])
Inst libgcc-s1 (12.2.0-14+deb12u1 Debian:12.15/oldstable, Debian-Security:12/oldstable-security [amd64]) []
Inst ca-certificates (20250419~deb12u2 Debian-Security:12/oldstable-security [all])
Conf libgmp10 (2:6.2.1+dfsg1-1.1 Debian:12.15/oldstable [amd64])
`

func TestSimulation(t *testing.T) {
	got, err := parseSimulation(simulation)
	if want := []string{"libgmp10=2:6.2.1+dfsg1-1.1", "libgcc-s1=12.2.0-14+deb12u1", "ca-certificates=20250419~deb12u2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("it is %v, %v, want %v", got, err, want)
	}
	for text, says := range map[string]string{
		"":                        "names no package",
		"Inst libgmp10\n":         "cannot read",
		"Inst libgmp10 (2:6.2)\n": "cannot read",
		"Inst nodejs (20.1-1nodesource1 Node Source:20.x [amd64])\n": "not Debian's",
	} {
		if _, err := parseSimulation(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("of %q: %v, want %q", text, err, says)
		}
	}
}

func TestDescriptions(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	got, err := parseDescriptions("Package: libgmp10\nSource: gmp\nVersion: 2:6.2\nArchitecture: amd64\nDescription: a\n Version: 9\n b\nSHA256: " + one + "\n\n" +
		"Package: linux-image\nVersion: 6.1-2\nSource: linux-signed-amd64 (6.1+2)\nArchitecture: amd64\nSHA256: " + two + "\n\n" +
		"Package: libgmp10\nVersion: 2:6.1\nArchitecture: amd64\nSHA256: " + two + "\n")
	if err != nil {
		t.Fatal(err)
	}
	gmp := Package{Name: "libgmp10", Version: "2:6.2", Architecture: "amd64", Source: "gmp", SourceVersion: "2:6.2", SHA256: one}
	linux := Package{Name: "linux-image", Version: "6.1-2", Architecture: "amd64", Source: "linux-signed-amd64", SourceVersion: "6.1+2", SHA256: two}
	for key, want := range map[string]Package{"libgmp10": gmp, "libgmp10=2:6.2": gmp, "linux-image": linux, "linux-image=6.1-2": linux} {
		if got[key] != want {
			t.Errorf("%s is %+v, want %+v", key, got[key], want)
		}
	}
	for _, text := range []string{"Package: x\nVersion: 1\nArchitecture: all\n", "Package: x\nVersion: 1\nArchitecture: all\nSHA256: ../../x\n", "Package: x\nSHA256: " + one + "\n"} {
		if _, err := parseDescriptions(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// fakeApt stands for apt and dpkg-deb: a package's file has its name and version, and unpacked it has one file.
type fakeApt struct {
	t *testing.T
	// fresh is set by apt-get update; without it apt knows no package.
	fresh bool
	// evil is the name of a package whose file isn't the one that apt describes.
	evil string
	// runs are the commands, without options.
	runs []string
}

func (f *fakeApt) run(_ context.Context, dir, name string, args ...string) ([]byte, error) {
	var words []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-o":
			i++
		case !strings.HasPrefix(args[i], "--") && args[i] != "-qq":
			words = append(words, args[i])
		}
	}
	f.runs = append(f.runs, name+" "+words[0])
	if !f.fresh && words[0] != "update" {
		return nil, errors.New("E: Unable to locate package")
	}
	switch name + " " + words[0] {
	case "apt-get update":
		f.fresh = true
	case "apt-cache depends":
		return []byte("linux-image-cloud-amd64\n  Depends: linux-image-6.1-cloud\n"), nil
	case "apt-get install":
		return []byte("Inst libone (1 Debian:12/stable [amd64])\nInst one (2:1 Debian:12/stable [amd64])\n"), nil
	case "apt-cache show":
		var out strings.Builder
		for _, word := range words[1:] {
			file := filepath.Join(f.t.TempDir(), "file")
			write(f.t, file, strings.Split(word, "=")[0])
			sum, err := fileid.Sum(file)
			if err != nil {
				return nil, err
			}
			p, version, _ := strings.Cut(word+"=6.1", "=")
			fmt.Fprintf(&out, "Package: %s\nVersion: %s\nArchitecture: amd64\nSHA256: %s\n\n", p, strings.TrimSuffix(version, "=6.1"), sum)
		}
		return []byte(out.String()), nil
	case "apt-get download":
		for _, word := range words[1:] {
			content := strings.Split(word, "=")[0]
			if content == f.evil {
				content = "evil"
			}
			write(f.t, filepath.Join(dir, strings.ReplaceAll(word, ":", "%3a")+".deb"), content)
		}
	case "dpkg-deb -x":
		write(f.t, filepath.Join(words[2], "content"), read(f.t, words[1]))
	default:
		f.t.Errorf("%s %v runs", name, args)
	}
	return nil, nil
}

// Packages are fetched once, the kernel's is the last one, and a list that is too old is fetched anew.
func TestPackages(t *testing.T) {
	cache := t.TempDir()
	apt := &fakeApt{t: t}
	a, err := OpenArchive(cache, apt.run, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	a.lists = t.TempDir()
	all, kernel, err := a.Packages(t.Context(), "linux-image-cloud-amd64", []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name+" "+p.Version)
		if got := read(t, filepath.Join(p.Dir, "content")); got != p.Name {
			t.Errorf("%s has %q", p.Name, got)
		}
	}
	if want := []string{"libone 1", "one 2:1", "linux-image-6.1-cloud 6.1"}; !slices.Equal(names, want) || kernel != all[2] {
		t.Errorf("they are %v, %s, want %v", names, kernel.Name, want)
	}
	first := len(apt.runs)
	if !slices.Contains(apt.runs, "apt-get update") {
		t.Errorf("these run: %v", apt.runs)
	}
	if again, _, err := a.Packages(t.Context(), "linux-image-cloud-amd64", []string{"one"}); err != nil || !slices.Equal(again, all) {
		t.Errorf("again they are %v, %v", again, err)
	}
	if slices.Contains(apt.runs[first:], "apt-get download") || slices.Contains(apt.runs[first:], "apt-get update") {
		t.Errorf("these run again: %v", apt.runs[first:])
	}
	for age, want := range map[time.Duration]bool{time.Hour: false, 25 * time.Hour: true} {
		first, list := len(apt.runs), filepath.Join(a.lists, "list")
		write(t, list, "")
		when := time.Now().Add(-age)
		if err := os.Chtimes(list, when, when); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Packages(t.Context(), "linux-image-cloud-amd64", []string{"one"}); err != nil || slices.Contains(apt.runs[first:], "apt-get update") != want {
			t.Errorf("with lists %s old these run: %v, %v", age, apt.runs[first:], err)
		}
	}
}

// A package that isn't the one that apt's signed list describes is never unpacked, and nothing stays of the attempt.
func TestForeignPackage(t *testing.T) {
	cache := t.TempDir()
	apt := &fakeApt{t: t, fresh: true, evil: "one"}
	a, err := OpenArchive(cache, apt.run, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	a.lists = t.TempDir()
	if _, _, err := a.Packages(t.Context(), "linux-image-cloud-amd64", []string{"one"}); err == nil || !strings.Contains(err.Error(), "no wanted package has its SHA-256") {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(filepath.Join(cache, "packages"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if got := read(t, filepath.Join(cache, "packages", e.Name(), "content")); got == "evil" || got == "one" {
			t.Errorf("%s has %q", e.Name(), got)
		}
	}
}
