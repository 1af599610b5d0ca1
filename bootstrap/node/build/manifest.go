package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/nodeimage/verity"
	"github.com/croft-edge/croft/pkg/fileid"
)

// mostBytes bounds vmlinuz, initrd and root.squashfs together, 120 MB: an image must fit twice on a small medium, and come over a slow line; one
// that comes from the network is in the machine's memory. A build of more fails, but for a fast one, of a lower level than squashfsLevel, which isn't
// for machines of others.
const mostBytes = 120_000_000

// addTree appends the hash tree to the root file system, with a salt that its content decides.
func addTree(file string) (verity.Tree, error) {
	sum, err := fileid.Sum(file)
	if err != nil {
		return verity.Tree{}, err
	}
	salt, err := hex.DecodeString(sum)
	if err != nil {
		return verity.Tree{}, err
	}
	return verity.Append(file, salt)
}

// describe writes image.json, and its signature where there is a key, for the files in a folder, of which one is the SBOM.
func (m *material) describe(c config, folder string, tree verity.Tree, built int64) error {
	manifest := nodeimage.Manifest{Format: nodeimage.Format, Version: c.version, Kernel: m.kernel.Version, Built: built, Root: tree, Components: m.components()}
	total := int64(0)
	for _, name := range []string{nodeimage.KernelFile, nodeimage.InitrdFile, nodeimage.RootFile} {
		file, err := fileIn(folder, name)
		if err != nil {
			return err
		}
		total += file.Size
		manifest.Files = append(manifest.Files, file)
	}
	bill, err := fileIn(folder, nodeimage.SBOMFile)
	if err != nil {
		return err
	}
	manifest.SBOM = &bill
	if total > mostBytes && c.level >= squashfsLevel {
		return fmt.Errorf("cannot make the image: its files have %s, must be at most %s: %s", imagebuild.Mebibytes(total), imagebuild.Mebibytes(mostBytes), sizes(manifest.Files))
	}
	raw, err := manifest.Encode()
	if err != nil {
		return err
	}
	if c.key != nil {
		if err := imagebuild.StageFrom(folder, nodeimage.SignatureFile, strings.NewReader(string(nodeimage.Sign(c.key, raw)))); err != nil {
			return err
		}
	}
	return imagebuild.StageFrom(folder, nodeimage.ManifestFile, strings.NewReader(string(raw)))
}

// fileIn describes a file in a folder.
func fileIn(folder, name string) (nodeimage.File, error) {
	sum, err := fileid.Sum(filepath.Join(folder, name))
	if err != nil {
		return nodeimage.File{}, err
	}
	info, err := os.Stat(filepath.Join(folder, name))
	if err != nil {
		return nodeimage.File{}, err
	}
	return nodeimage.File{Name: name, Size: info.Size(), SHA256: sum}, nil
}

// sizes names the files with their sizes.
func sizes(files []nodeimage.File) string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name+" "+imagebuild.Mebibytes(f.Size))
	}
	return strings.Join(out, ", ")
}

// components are what the manifest names, sorted by their names.
func (m *material) components() []nodeimage.Component {
	out := []nodeimage.Component{{Name: "linux", Version: m.kernelPackage.Version}}
	for _, p := range m.programs {
		if p.Path == initProgram {
			out = append(out, nodeimage.Component{Name: "go", Version: p.ModuleVersion("stdlib")})
		}
	}
	shown := shownPackages()
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		for _, p := range m.packages {
			if p.Name == shown[name] {
				out = append(out, nodeimage.Component{Name: name, Version: p.Version})
			}
		}
	}
	slices.SortFunc(out, func(a, b nodeimage.Component) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// newest is the date of the newest input: of the packages' files, and of croft's last commit where the source has a history.
func newest(ctx context.Context, c config, packages []imagebuild.Package) (int64, error) {
	var out int64
	for _, p := range packages {
		err := filepath.WalkDir(p.Dir, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				out = max(out, info.ModTime().Unix())
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	commit, err := commitDate(ctx, c)
	if err != nil {
		return 0, err
	}
	out = max(out, commit)
	if out == 0 {
		return 0, errors.New("cannot date the image: no input has a date")
	}
	return out, nil
}

// commitDate is the date of croft's last commit in seconds since 1970; 0 where the source has no history.
func commitDate(ctx context.Context, c config) (int64, error) {
	text, err := c.run(ctx, c.source, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return 0, nil //nolint:nilerr // the source needn't be a repository
	}
	date, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read the date of the last commit: %w", err)
	}
	return date, nil
}
