package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/internal/nodeimage"
)

const (
	imageName = "croft-node"
	// squashfsLevel and squashfsBlock are what the root file system is packed with, by default. Level 9 takes 10 seconds of a processor and 7 MB more,
	// 15 takes 90, and 19 minutes. zstd has other tables for blocks of more than 256K, with which the level 15 packs worse.
	squashfsLevel = 15
	squashfsBlock = "256K"
)

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
	staged, err := os.MkdirTemp(c.out, imagebuild.Temporary)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	if err := m.make(ctx, c, places{work: work, staged: staged}, p); err != nil {
		return err
	}
	if err := makeMedia(ctx, staged); err != nil {
		return err
	}
	if c.key == nil { // the old image's signature
		if err := os.Remove(filepath.Join(c.out, nodeimage.SignatureFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := imagebuild.Publish(staged, c.out, nodeimage.ManifestFile); err != nil {
		return err
	}
	if err := tell(c, p); err != nil {
		return err
	}
	return imagebuild.KeepPackages(c.cache, m.packages)
}

// places are the folders of one build: one to work in, and that of the image's files.
type places struct{ work, staged string }

// material is what an image is made of, on this machine.
type material struct {
	release       string
	packages      []imagebuild.Package
	kernelPackage imagebuild.Package
	kernel        imagebuild.Kernel
	// own are the paths of croft's own programs by their places in the image.
	own      map[string]string
	programs []imagebuild.Program
	// built is the date of the newest part, in seconds since 1970.
	built int64
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
	if m.packages, m.kernelPackage, err = debian.Packages(ctx, c.newestKernel, packageNames()); err != nil {
		return nil, err
	}
	if m.kernel, err = imagebuild.OpenKernel(m.kernelPackage.Dir); err != nil {
		return nil, err
	}
	p.Say("packages: %d are unpacked; kernel %s", len(m.packages), m.kernel.Version)
	if m.own, m.programs, err = compilePrograms(ctx, c, work); err != nil {
		return nil, err
	}
	p.Say("croft's own programs are compiled")
	return m, nil
}

// make makes the image's files but for the media.
func (m *material) make(ctx context.Context, c config, at places, p *imagebuild.Progress) error {
	r, used, err := m.root(ctx, c, at.work)
	if err != nil {
		return err
	}
	p.Say("root folder: files of %d packages, all libraries are there", len(used))
	squashfs, fresh, err := imagebuild.PackRoot(ctx, r, imagebuild.Packing{Cache: c.cache, Level: c.level, Block: squashfsBlock, Run: c.run})
	if err != nil {
		return err
	}
	p.Say("root file system: %s", map[bool]string{true: "packed", false: "as it was packed before"}[fresh])
	if err := m.stage(r, at.staged, squashfs, c.publicKey()); err != nil {
		return err
	}
	tree, err := addTree(filepath.Join(at.staged, nodeimage.RootFile))
	if err != nil {
		return err
	}
	bill, err := imagebuild.BillOf(imagebuild.Contents{Name: imageName, Version: c.version, Release: m.release, Packages: used, Programs: m.programs})
	if err != nil {
		return err
	}
	if err := imagebuild.StageFrom(at.staged, nodeimage.SBOMFile, bytes.NewReader(bill)); err != nil {
		return err
	}
	return m.describe(c, at.staged, tree, m.built)
}

// root makes the root folder in the folder work, and returns the packages that it has files of.
func (m *material) root(ctx context.Context, c config, work string) (imagebuild.RootFolder, []imagebuild.Package, error) {
	r, err := imagebuild.MakeRootFolder(filepath.Join(work, "root"))
	if err != nil {
		return r, nil, err
	}
	for at, from := range m.own {
		if at == stage1Program {
			continue
		}
		if err := r.Copy(at, from); err != nil {
			return r, nil, err
		}
	}
	files, err := packageFiles(m.packages)
	if err != nil {
		return r, nil, err
	}
	used, err := imagebuild.InstallPackages(r, imagebuild.Selection{Packages: m.packages, Kernel: m.kernelPackage.Name, Files: files})
	if err != nil {
		return r, nil, err
	}
	if m.built, err = newest(ctx, c, used); err != nil {
		return r, nil, err
	}
	programs, err := commitDate(ctx, c)
	if err != nil {
		return r, nil, err
	}
	for _, step := range []func() error{
		func() error { return imagebuild.LinkApplets(ctx, r, c.run) },
		func() error { return writeTexts(r, osRelease(c.version, programs)) },
		func() error { return m.kernel.InstallSome(ctx, r, wantedModule, c.run) },
		func() error { return imagebuild.CheckPrograms(r) },
		func() error { return checkIncludes(r) },
	} {
		if err := step(); err != nil {
			return r, nil, err
		}
	}
	return r, used, nil
}

// stage writes kernel, initrd and root file system into an empty folder. key is the text of the public key; nil without one.
func (m *material) stage(r imagebuild.RootFolder, folder, squashfs string, key []byte) error {
	program, err := os.ReadFile(m.own[stage1Program])
	if err != nil {
		return err
	}
	packed, err := packInitrd(r.At("/lib/modules/"+m.kernel.Version), program, key)
	if err != nil {
		return err
	}
	if err := imagebuild.StageFrom(folder, nodeimage.InitrdFile, bytes.NewReader(packed)); err != nil {
		return err
	}
	if err := imagebuild.Stage(folder, nodeimage.KernelFile, m.kernel.Image); err != nil {
		return err
	}
	return imagebuild.Stage(folder, nodeimage.RootFile, squashfs)
}

// tell prints what the image has become.
func tell(c config, p *imagebuild.Progress) error {
	raw, err := os.ReadFile(filepath.Join(c.out, nodeimage.ManifestFile))
	if err != nil {
		return err
	}
	manifest, err := nodeimage.Decode(raw)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, f := range manifest.Files {
		total += f.Size
		p.Say("%s: %s", filepath.Join(c.out, f.Name), imagebuild.Mebibytes(f.Size))
	}
	signed := map[bool]string{true: "signed", false: "not signed"}[c.key != nil]
	p.Say("the image %s is ready: %s, %s", c.version, imagebuild.Mebibytes(total), signed)
	return nil
}
