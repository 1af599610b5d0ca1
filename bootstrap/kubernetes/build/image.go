package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/internal/initrd"
	"github.com/croft-edge/croft/pkg/vmimage"
)

const (
	imageName = "kubernetes"
	// squashfsLevel packs the image in seconds; higher levels save a few percent.
	squashfsLevel = 9
	// newestKernel is the package that depends on Debian's newest kernel for virtual machines.
	newestKernel = "linux-image-cloud-amd64"
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
	run imagebuild.Runner
}

// build makes the image. Two builds with the same cache go one after the other.
func build(ctx context.Context, c config, p *imagebuild.Progress) error {
	for _, dir := range []string{c.cache, c.out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	lock, err := imagebuild.LockCache(ctx, c.cache, p)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	if err := imagebuild.RemoveTemporary(c.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp(c.cache, imagebuild.Temporary)
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
	squashfs, fresh, err := imagebuild.PackRoot(ctx, r, imagebuild.Packing{Cache: c.cache, Level: squashfsLevel, Run: c.run})
	if err != nil {
		return err
	}
	p.Say("root file system: %s", map[bool]string{true: "packed", false: "as it was packed before"}[fresh])
	staged, err := os.MkdirTemp(c.out, imagebuild.Temporary)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	if err := m.stage(staged, r, squashfs, used); err != nil {
		return err
	}
	if err := imagebuild.Publish(staged, c.out, vmimage.Manifest); err != nil {
		return err
	}
	if err := tell(c.out, m.versions, p); err != nil {
		return err
	}
	return imagebuild.KeepPackages(c.cache, m.packages)
}

// firstModules are what the initrd loads before it has the root disk: the buses of both kinds of machines, the disk, the
// root file system, and the overlay above it. Modules that these need come too, such as squashfs's decompressor; those
// built into the kernel don't.
func firstModules() []string {
	return []string{"virtio_pci", "virtio_mmio", "virtio_blk", "squashfs", "overlay"}
}

// material is what an image is made of, on this machine.
type material struct {
	versions versions
	release  string
	packages []imagebuild.Package
	// kernelPackage is the name of the package that has the kernel.
	kernelPackage string
	kernel        imagebuild.Kernel
	// parts are the compiled parts, own those of croft's own module: their paths by their places in the image.
	parts, own map[string]string
	programs   []imagebuild.Program
}

// collect fetches and compiles all that the image is made of; croft's own programs go into the folder work.
func collect(ctx context.Context, c config, work string, p *imagebuild.Progress) (*material, error) {
	debian, err := imagebuild.OpenArchive(c.cache, c.run, p.Say)
	if err != nil {
		return nil, err
	}
	m := &material{}
	if m.release, err = imagebuild.DebianRelease("/etc/os-release"); err != nil {
		return nil, err
	}
	packages, image, err := debian.Packages(ctx, newestKernel, packageNames())
	if err != nil {
		return nil, err
	}
	m.packages = packages
	m.kernelPackage = image.Name
	if m.kernel, err = imagebuild.OpenKernel(image.Dir); err != nil {
		return nil, err
	}
	p.Say("packages: %d are unpacked; kernel %s", len(m.packages), m.kernel.Version)
	if m.own, err = compilePrograms(ctx, c.source, work); err != nil {
		return nil, err
	}
	p.Say("croft's own programs are compiled")
	if m.parts, err = findParts(ctx, c, p); err != nil {
		return nil, err
	}
	if m.programs, m.versions, err = readPrograms(m.parts, m.own, c.version); err != nil {
		return nil, err
	}
	if err := linkLibraries(ctx, c.run, m.programs); err != nil {
		return nil, err
	}
	p.Say("parts: Kubernetes %s, CoreDNS %s, %d programs", m.versions.kubernetes, m.versions.coredns, len(m.programs))
	return m, nil
}

// compilePrograms compiles croft's own programs into a folder.
func compilePrograms(ctx context.Context, source, work string) (map[string]string, error) {
	out := map[string]string{initProgram: filepath.Join(work, "init"), pauseProgram: filepath.Join(work, "pause")}
	for at, dir := range map[string]string{initProgram: initFolder, pauseProgram: pauseFolder} {
		if err := (imagebuild.OwnProgram{Source: source, Dir: dir}).Compile(ctx, out[at]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// root makes the root folder in the folder work, and returns the packages that it has files of.
func (m *material) root(ctx context.Context, c config, work string, p *imagebuild.Progress) (imagebuild.RootFolder, []imagebuild.Package, error) {
	r, err := imagebuild.MakeRootFolder(filepath.Join(work, "root"))
	if err != nil {
		return r, nil, err
	}
	for at, from := range m.parts {
		if at == corednsProgram {
			continue
		}
		if err := r.Copy(at, from); err != nil {
			return r, nil, err
		}
	}
	if err := r.Copy(initProgram, m.own[initProgram]); err != nil {
		return r, nil, err
	}
	used, err := imagebuild.InstallPackages(r, imagebuild.Selection{Packages: m.packages, Kernel: m.kernelPackage, Files: packageFiles()})
	if err != nil {
		return r, nil, err
	}
	if err := imagebuild.LinkApplets(ctx, r, c.run); err != nil {
		return r, nil, err
	}
	if err := writeTexts(r, m.versions); err != nil {
		return r, nil, err
	}
	if err := m.containerImages(r, work); err != nil {
		return r, nil, err
	}
	if err := m.kernel.Install(ctx, r, c.run); err != nil {
		return r, nil, err
	}
	if err := imagebuild.CheckPrograms(r); err != nil {
		return r, nil, err
	}
	p.Say("root folder: files of %d packages, all libraries are there", len(used))
	return r, used, nil
}

// containerImages writes the images of containers that every node has.
func (m *material) containerImages(r imagebuild.RootFolder, work string) error {
	for _, i := range []struct {
		file  string
		image containerImage
	}{
		{"pause.tar", containerImage{name: m.versions.pauseImage(), program: "/pause", from: m.own[pauseProgram]}},
		{"coredns.tar", containerImage{name: m.versions.corednsImage(), program: "/coredns", from: m.parts[corednsProgram], authorities: r.At(imagebuild.Bundle)}},
	} {
		made := filepath.Join(work, i.file)
		if err := i.image.write(made); err != nil {
			return err
		}
		if err := os.Chmod(made, 0o644); err != nil {
			return err
		}
		if err := r.Copy("/usr/share/croft/images/"+i.file, made); err != nil {
			return err
		}
	}
	return nil
}

// stage writes the image's files, and its manifest at last, into an empty folder.
func (m *material) stage(folder string, r imagebuild.RootFolder, squashfs string, used []imagebuild.Package) error {
	image := vmimage.Image{
		Name: imageName, Version: m.versions.image, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs", Arguments: kernelArguments,
	}
	program, err := os.ReadFile(m.own[initProgram])
	if err != nil {
		return err
	}
	modules, err := m.kernel.WithNeeds(r, firstModules())
	if err != nil {
		return err
	}
	packed, err := initrd.Pack(program, modules)
	if err != nil {
		return err
	}
	bill, err := imagebuild.BillOf(imagebuild.Contents{Name: imageName, Version: m.versions.image, Release: m.release, Packages: used, Programs: m.programs})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{image.Initrd: packed, "sbom.json": bill} {
		if err := imagebuild.StageFrom(folder, name, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{image.Kernel: m.kernel.Image, image.Root: squashfs} {
		if err := imagebuild.Stage(folder, name, from); err != nil {
			return err
		}
	}
	return vmimage.Write(folder, image)
}

// tell prints what the image has become.
func tell(out string, v versions, p *imagebuild.Progress) error {
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
		p.Say("%s: %s", filepath.Join(out, e.Name()), imagebuild.Mebibytes(info.Size()))
	}
	p.Say("the image %s %s is ready", imageName, v.image)
	return nil
}
