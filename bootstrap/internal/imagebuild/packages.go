package imagebuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// Busybox is the program of all applets.
	Busybox = "/bin/busybox"
	// authorities has a certificate authority a file, in a package that no file of the image depends on.
	authoritiesPackage = "ca-certificates"
	authorities        = "/usr/share/ca-certificates/mozilla"
	// Bundle has all authorities in one file.
	Bundle = "/etc/ssl/certs/ca-certificates.crt"
)

// Selection is what an image has of packages.
type Selection struct {
	Packages []Package
	// Kernel is the name of the kernel's package.
	Kernel string
	// Files are taken, with all that they need.
	Files []string
}

// InstallPackages copies the selected files into the root folder, with their packages' copyright files and that of the
// kernel's package, and a bundle of all certificate authorities. It returns the packages that the image has files of.
func InstallPackages(r RootFolder, s Selection) ([]Package, error) {
	files, err := Closure(s.Packages, s.Files)
	if err != nil {
		return nil, err
	}
	owners := map[string]bool{authoritiesPackage: true, s.Kernel: true}
	for _, f := range files {
		owners[f.Owner] = true
		if f.Target != "" {
			err = r.Link(f.Path, f.Target)
		} else {
			err = r.Copy(f.Path, f.From)
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := authoritiesBundle(s.Packages)
	if err != nil {
		return nil, err
	}
	if err := r.File(Bundle, text, 0o644); err != nil {
		return nil, err
	}
	var used []Package
	for _, p := range s.Packages {
		if !owners[p.Name] {
			continue
		}
		used = append(used, p)
		if err := installCopyright(r, s.Packages, p.Name); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// installCopyright copies a package's copyright file, which may be that of another package.
func installCopyright(r RootFolder, packages []Package, name string) error {
	at := path.Join("/usr/share/doc", name)
	from := at
	for range 3 {
		f, err := find(packages, Place(path.Join(from, "copyright")))
		if err == nil && f.Target == "" {
			return r.Copy(path.Join(at, "copyright"), f.From)
		}
		if f, err = find(packages, Place(from)); err != nil || f.Target == "" {
			break
		}
		from = f.Target
	}
	return fmt.Errorf("cannot find the copyright file of package %s", name)
}

// authoritiesBundle are all certificate authorities, as update-ca-certificates joins them.
func authoritiesBundle(packages []Package) (string, error) {
	i := slices.IndexFunc(packages, func(p Package) bool { return p.Name == authoritiesPackage })
	if i < 0 {
		return "", errors.New("cannot find package " + authoritiesPackage)
	}
	names, err := filepath.Glob(filepath.Join(packages[i].Dir, authorities, "*.crt"))
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("cannot find a certificate authority in %s", packages[i].Dir)
	}
	var out strings.Builder
	for _, name := range names { // Glob sorts
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if !bytes.HasPrefix(text, []byte("-----BEGIN CERTIFICATE-----")) {
			return "", fmt.Errorf("cannot use %s: it is no certificate", name)
		}
		out.Write(bytes.TrimRight(text, "\n"))
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// programFolders are where programs are looked for by name.
func programFolders() []string { return []string{"/usr/bin", "/usr/sbin"} }

// LinkApplets makes the links by which busybox is called. A program of the image keeps its name in every folder: the
// order of PATH doesn't decide which one runs.
func LinkApplets(ctx context.Context, r RootFolder, run Runner) error {
	text, err := run(ctx, "", r.At(Busybox), "--list-full")
	if err != nil {
		return err
	}
	applets := strings.Fields(string(text))
	if !slices.Contains(applets, "bin/sh") || !slices.Contains(applets, "sbin/modprobe") {
		return fmt.Errorf("cannot link busybox's applets: there is no bin/sh or no sbin/modprobe in %v", applets)
	}
	for _, applet := range applets {
		dir, name := path.Split(applet)
		if !slices.Contains(programFolders(), "/"+Place(dir)) || slices.ContainsFunc(programFolders(), func(d string) bool { return r.Has(path.Join(d, name)) }) {
			continue
		}
		if err := r.Link(applet, Busybox); err != nil {
			return err
		}
	}
	return nil
}

// CheckPrograms looks for what a program or library in the root folder needs and doesn't find there.
func CheckPrograms(r RootFolder) error {
	root := []Package{{Name: "the root file system", Dir: string(r)}}
	return filepath.WalkDir(string(r), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		at, err := filepath.Rel(string(r), name)
		if err != nil {
			return err
		}
		_, err = Closure(root, []string{at})
		return err
	})
}
