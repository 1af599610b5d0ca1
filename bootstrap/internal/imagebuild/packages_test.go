package imagebuild

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const certificate = "-----BEGIN CERTIFICATE-----\nMII%s\n-----END CERTIFICATE-----"

// wantedFiles are the files that an image takes.
func wantedFiles() []string {
	return []string{
		Busybox, "/usr/sbin/dropbear", "/usr/bin/dropbearkey", "/sbin/mke2fs", "/sbin/resize2fs", "/sbin/e2fsck", "/etc/mke2fs.conf", "/usr/sbin/nft",
	}
}

// unpackedPackages have all files that the image takes, as scripts, which need nothing.
func unpackedPackages(t *testing.T) []Package {
	t.Helper()
	var out []Package
	for name, files := range map[string][]string{
		"busybox-static": {"bin/busybox"}, "dropbear-bin": {"usr/sbin/dropbear", "usr/bin/dropbearkey"}, "nftables": {"usr/sbin/nft"}, "unused": {"usr/bin/unused"},
		"e2fsprogs":        {"sbin/mke2fs", "sbin/resize2fs", "sbin/e2fsck", "etc/mke2fs.conf"},
		"ca-certificates":  {},
		"linux-image-6.1":  {"boot/vmlinuz-6.1"},
		"dropbear-licence": {"usr/bin/licence"},
	} {
		p := Package{Name: name, Dir: t.TempDir()}
		for _, file := range files {
			write(t, filepath.Join(p.Dir, file), "of "+name)
		}
		if name == "dropbear-bin" { // as packages of one source do
			write(t, filepath.Join(p.Dir, "usr/share/doc/x"), "")
			symlink(t, "dropbear-licence", filepath.Join(p.Dir, "usr/share/doc", name))
		} else {
			write(t, filepath.Join(p.Dir, "usr/share/doc", name, "copyright"), "copyright of "+name)
		}
		out = append(out, p)
	}
	for i, name := range []string{"A.crt", "B.crt"} {
		at := slices.IndexFunc(out, func(p Package) bool { return p.Name == authoritiesPackage })
		write(t, filepath.Join(out[at].Dir, authorities, name), strings.ReplaceAll(certificate, "%s", name[:1])+strings.Repeat("\n", i))
	}
	return out
}

// The image has the wanted files, the copyright of each package that gives any, and one bundle of all authorities.
func TestInstallPackages(t *testing.T) {
	r := newRoot(t)
	used, err := InstallPackages(r, Selection{Packages: unpackedPackages(t), Kernel: "linux-image-6.1", Files: wantedFiles()})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range used {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if want := []string{"busybox-static", "ca-certificates", "dropbear-bin", "e2fsprogs", "linux-image-6.1", "nftables"}; !slices.Equal(names, want) {
		t.Errorf("packages %v are used, want %v", names, want)
	}
	for at, want := range map[string]string{
		"/sbin/mke2fs": "of e2fsprogs", "/usr/share/doc/nftables/copyright": "copyright of nftables",
		"/usr/share/doc/dropbear-bin/copyright": "copyright of dropbear-licence",
		Bundle:                                  strings.ReplaceAll(certificate, "%s", "A") + "\n" + strings.ReplaceAll(certificate, "%s", "B") + "\n",
	} {
		if !r.Has(at) {
			t.Errorf("%s is missing", at)
		} else if got := read(t, r.At(at)); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
	for _, at := range []string{"/boot", "/usr/bin/unused", "/usr/share/doc/unused", authorities} {
		if r.Has(at) {
			t.Errorf("%s is in the image", at)
		}
	}
}

func TestIncompletePackages(t *testing.T) {
	for _, name := range []string{"nftables", authoritiesPackage, "dropbear-licence"} {
		packages := slices.DeleteFunc(unpackedPackages(t), func(p Package) bool { return p.Name == name })
		if _, err := InstallPackages(newRoot(t), Selection{Packages: packages, Kernel: "linux-image-6.1", Files: wantedFiles()}); err == nil || !strings.HasPrefix(err.Error(), "cannot find ") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
