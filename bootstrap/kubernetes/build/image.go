package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/internal/testing/initrd"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/vmimage"
)

const (
	imageName = "kubernetes"
	// kernelArguments are the image's; the node adds the console and the clock. A kernel that panics starts again, and
	// algorithms aren't tested at each boot.
	kernelArguments = "quiet panic=10 cryptomgr.notests"
	// pauseVersion is the tag of the pause image: a higher one for another program.
	pauseVersion = "1"
	initFolder   = "bootstrap/kubernetes/init"
	pauseFolder  = "bootstrap/kubernetes/pause"
)

// config says what to build.
type config struct {
	// source is the root folder of croft's source.
	source string
	// out is the folder of the image, parts one of compiled parts, empty for none; cache is kept between builds.
	out, parts, cache string
	// version is croft's.
	version string
	// run runs the commands that aren't Go's.
	run runner
}

// build makes the image. Two builds with the same cache go one after the other.
func build(ctx context.Context, c config, p *progress) error {
	for _, dir := range []string{c.cache, c.out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	lock, err := filelock.Try(filepath.Join(c.cache, "lock"))
	if filelock.Held(err) != nil {
		p.say("waiting for another build with the cache %s", c.cache)
		lock, err = filelock.Wait(ctx, filepath.Join(c.cache, "lock"))
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	for _, dir := range []string{c.cache, filepath.Join(c.cache, "packages"), filepath.Join(c.cache, "squashfs"), c.out} {
		if err := removeTemporary(dir); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(c.cache, temporary)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	m, err := collect(ctx, c, work, p)
	if err != nil {
		return err
	}
	r, used, err := m.root(ctx, c, work, p)
	if err != nil {
		return err
	}
	squashfs, fresh, err := packRoot(ctx, r, c.cache, c.run)
	if err != nil {
		return err
	}
	p.say("root file system: %s", map[bool]string{true: "packed", false: "as it was packed before"}[fresh])
	staged, err := os.MkdirTemp(c.out, temporary)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	if err := m.stage(staged, r, squashfs, used); err != nil {
		return err
	}
	if err := publish(staged, c.out); err != nil {
		return err
	}
	if err := tell(c.out, m.versions, p); err != nil {
		return err
	}
	return m.keepPackages(c.cache)
}

// material is what an image is made of, on this machine.
type material struct {
	versions versions
	release  string
	packages []debianPackage
	// kernelPackage is the name of the package that has the kernel.
	kernelPackage string
	kernel        kernel
	// parts are the compiled parts, own those of croft's own module: their paths by their places in the image.
	parts, own map[string]string
	programs   []goProgram
}

// collect fetches and compiles all that the image is made of; croft's own programs go into the folder work.
func collect(ctx context.Context, c config, work string, p *progress) (*material, error) {
	debian, err := openArchive(c.cache, c.run, p.say)
	if err != nil {
		return nil, err
	}
	m := &material{}
	if m.release, err = debianRelease("/etc/os-release"); err != nil {
		return nil, err
	}
	packages, image, err := debian.packages(ctx, packageNames())
	if err != nil {
		return nil, err
	}
	m.packages = packages
	m.kernelPackage = image.name
	if m.kernel, err = openKernel(image.dir); err != nil {
		return nil, err
	}
	p.say("packages: %d are unpacked; kernel %s", len(m.packages), m.kernel.version)
	if m.own, err = compilePrograms(ctx, c.source, work); err != nil {
		return nil, err
	}
	p.say("croft's own programs are compiled")
	if m.parts, err = findParts(ctx, c, p); err != nil {
		return nil, err
	}
	if m.programs, m.versions, err = readPrograms(m.parts, m.own, c.version); err != nil {
		return nil, err
	}
	if err := linkLibraries(ctx, c.run, m.programs); err != nil {
		return nil, err
	}
	p.say("parts: Kubernetes %s, CoreDNS %s, %d programs", m.versions.kubernetes, m.versions.coredns, len(m.programs))
	return m, nil
}

// compilePrograms compiles croft's own programs into a folder.
func compilePrograms(ctx context.Context, source, work string) (map[string]string, error) {
	out := map[string]string{initProgram: filepath.Join(work, "init"), pauseProgram: filepath.Join(work, "pause")}
	for at, dir := range map[string]string{initProgram: initFolder, pauseProgram: pauseFolder} {
		if err := compileOwn(ctx, source, dir, out[at]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// root makes the root folder in the folder work, and returns the packages that it has files of.
func (m *material) root(ctx context.Context, c config, work string, p *progress) (rootFolder, []debianPackage, error) {
	r, err := makeRootFolder(filepath.Join(work, "root"))
	if err != nil {
		return r, nil, err
	}
	for at, from := range m.parts {
		if at == corednsProgram {
			continue
		}
		if err := r.copy(at, from); err != nil {
			return r, nil, err
		}
	}
	if err := r.copy(initProgram, m.own[initProgram]); err != nil {
		return r, nil, err
	}
	used, err := installPackages(r, m.packages, m.kernelPackage)
	if err != nil {
		return r, nil, err
	}
	if err := linkApplets(ctx, r, c.run); err != nil {
		return r, nil, err
	}
	if err := writeTexts(r, m.versions); err != nil {
		return r, nil, err
	}
	if err := m.containerImages(r, work); err != nil {
		return r, nil, err
	}
	if err := m.kernel.install(ctx, r, c.run); err != nil {
		return r, nil, err
	}
	if err := checkPrograms(r); err != nil {
		return r, nil, err
	}
	p.say("root folder: files of %d packages, all libraries are there", len(used))
	return r, used, nil
}

// containerImages writes the images of containers that every node has.
func (m *material) containerImages(r rootFolder, work string) error {
	for _, i := range []struct {
		file  string
		image containerImage
	}{
		{"pause.tar", containerImage{name: m.versions.pauseImage(), program: "/pause", from: m.own[pauseProgram]}},
		{"coredns.tar", containerImage{name: m.versions.corednsImage(), program: "/coredns", from: m.parts[corednsProgram], authorities: r.at(bundle)}},
	} {
		made := filepath.Join(work, i.file)
		if err := i.image.write(made); err != nil {
			return err
		}
		if err := os.Chmod(made, 0o644); err != nil {
			return err
		}
		if err := r.copy("/usr/share/croft/images/"+i.file, made); err != nil {
			return err
		}
	}
	return nil
}

// stage writes the image's files, and its manifest at last, into an empty folder.
func (m *material) stage(folder string, r rootFolder, squashfs string, used []debianPackage) error {
	image := vmimage.Image{
		Name: imageName, Version: m.versions.image, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs", Arguments: kernelArguments,
	}
	program, err := os.ReadFile(m.own[initProgram])
	if err != nil {
		return err
	}
	modules, err := m.kernel.first(r)
	if err != nil {
		return err
	}
	packed, err := initrd.Pack(program, modules)
	if err != nil {
		return err
	}
	bill, err := billOf(contents{name: imageName, version: m.versions.image, release: m.release, packages: used, programs: m.programs})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{image.Initrd: packed, "sbom.json": bill} {
		if err := stageFrom(folder, name, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{image.Kernel: m.kernel.image, image.Root: squashfs} {
		if err := stage(folder, name, from); err != nil {
			return err
		}
	}
	return vmimage.Write(folder, image)
}

// keepPackages removes packages from the cache that this image isn't made of.
func (m *material) keepPackages(cache string) error {
	var names []string
	for _, p := range m.packages {
		names = append(names, filepath.Base(p.dir))
	}
	return keepOnly(filepath.Join(cache, "packages"), names...)
}

// tell prints what the image has become.
func tell(out string, v versions, p *progress) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err != nil {
			return err
		}
		p.say("%s: %s", filepath.Join(out, e.Name()), mebibytes(info.Size()))
	}
	p.say("the image %s %s is ready", imageName, v.image)
	return nil
}

// debianRelease is the number of this machine's Debian, whose packages are taken.
func debianRelease(file string) (string, error) {
	fields, err := readVariables(file)
	if err != nil {
		return "", err
	}
	if fields["ID"] != "debian" || fields["VERSION_ID"] == "" {
		return "", fmt.Errorf("cannot take packages: this machine has %q %q, not a release of Debian", fields["ID"], fields["VERSION_ID"])
	}
	return fields["VERSION_ID"], nil
}
