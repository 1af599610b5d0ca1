package main

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

// packageNames are the Debian packages of which the image has files, beside those that they need and the kernel's.
func packageNames() []string {
	return []string{"busybox-static", "ca-certificates", "dropbear-bin", "e2fsprogs", "nftables"}
}

// packageFiles are the files that are taken of packages, with all that they need.
func packageFiles() []string {
	return []string{
		busybox,
		"/usr/sbin/dropbear", "/usr/bin/dropbearkey",
		"/sbin/mke2fs", "/sbin/resize2fs", "/sbin/e2fsck", "/etc/mke2fs.conf",
		"/usr/sbin/nft",
	}
}

const (
	busybox = "/bin/busybox"
	// authorities has a certificate authority a file, in a package that no file of the image depends on.
	authoritiesPackage = "ca-certificates"
	authorities        = "/usr/share/ca-certificates/mozilla"
	// bundle are all authorities in one file.
	bundle = "/etc/ssl/certs/ca-certificates.crt"
)

// installPackages copies the files of packages that the image has into the root folder, with their packages' copyright
// files and that of the kernel's package, and returns the packages that the image has files of.
func installPackages(r rootFolder, packages []debianPackage, kernel string) ([]debianPackage, error) {
	files, err := closure(packages, packageFiles())
	if err != nil {
		return nil, err
	}
	owners := map[string]bool{authoritiesPackage: true, kernel: true}
	for _, f := range files {
		owners[f.owner] = true
		if f.target != "" {
			err = r.link(f.path, f.target)
		} else {
			err = r.copy(f.path, f.from)
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := authoritiesBundle(packages)
	if err != nil {
		return nil, err
	}
	if err := r.file(bundle, text, 0o644); err != nil {
		return nil, err
	}
	var used []debianPackage
	for _, p := range packages {
		if !owners[p.name] {
			continue
		}
		used = append(used, p)
		if err := installCopyright(r, packages, p.name); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// installCopyright copies a package's copyright file, which may be that of another package.
func installCopyright(r rootFolder, packages []debianPackage, name string) error {
	at := path.Join("/usr/share/doc", name)
	from := at
	for range 3 {
		f, err := find(packages, place(path.Join(from, "copyright")))
		if err == nil && f.target == "" {
			return r.copy(path.Join(at, "copyright"), f.from)
		}
		if f, err = find(packages, place(from)); err != nil || f.target == "" {
			break
		}
		from = f.target
	}
	return fmt.Errorf("cannot find the copyright file of package %s", name)
}

// authoritiesBundle are all certificate authorities, as update-ca-certificates joins them.
func authoritiesBundle(packages []debianPackage) (string, error) {
	i := slices.IndexFunc(packages, func(p debianPackage) bool { return p.name == authoritiesPackage })
	if i < 0 {
		return "", errors.New("cannot find package " + authoritiesPackage)
	}
	names, err := filepath.Glob(filepath.Join(packages[i].dir, authorities, "*.crt"))
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("cannot find a certificate authority in %s", packages[i].dir)
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

// linkApplets makes the links by which busybox is called. A program of the image keeps its name in every folder: the
// order of PATH doesn't decide which one runs.
func linkApplets(ctx context.Context, r rootFolder, run runner) error {
	text, err := run(ctx, "", r.at(busybox), "--list-full")
	if err != nil {
		return err
	}
	applets := strings.Fields(string(text))
	if !slices.Contains(applets, "bin/sh") || !slices.Contains(applets, "sbin/modprobe") {
		return fmt.Errorf("cannot link busybox's applets: there is no bin/sh or no sbin/modprobe in %v", applets)
	}
	for _, applet := range applets {
		dir, name := path.Split(applet)
		if !slices.Contains(programFolders(), "/"+place(dir)) || slices.ContainsFunc(programFolders(), func(d string) bool { return r.has(path.Join(d, name)) }) {
			continue
		}
		if err := r.link(applet, busybox); err != nil {
			return err
		}
	}
	return nil
}

// checkPrograms looks for what a program or library in the root folder needs and doesn't find there.
func checkPrograms(r rootFolder) error {
	root := []debianPackage{{name: "the root file system", dir: string(r)}}
	return filepath.WalkDir(string(r), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		at, err := filepath.Rel(string(r), name)
		if err != nil {
			return err
		}
		_, err = closure(root, []string{at})
		return err
	})
}
