package imagetest

import (
	"archive/tar"
	"fmt"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Builder collects what an image is made of. Its methods return it, what fails
// comes out of Image, Layout, Tar, DockerTar and Push. Paths are absolute
// ones of the container; folders above them needn't be added.
type Builder struct {
	layers []*layer
	config v1.ConfigFile
	docker bool
}

type layer struct {
	entries []entry
	zstd    bool
	plain   bool
}

type entry struct {
	header  tar.Header
	content []byte
	// make yields the content late, such as a program's.
	make func() ([]byte, error)
}

// New is an image for this machine with one empty layer.
func New() *Builder {
	return &Builder{
		layers: []*layer{{}},
		config: v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}},
	}
}

// Layer begins the next layer: what is added from here on lies above.
func (b *Builder) Layer() *Builder {
	b.layers = append(b.layers, &layer{})
	return b
}

// Zstd packs the present layer with zstd rather than gzip.
func (b *Builder) Zstd() *Builder {
	b.top().zstd = true
	return b
}

// Plain doesn't pack the present layer.
func (b *Builder) Plain() *Builder {
	b.top().plain = true
	return b
}

// Docker gives the image Docker's media types rather than OCI's.
func (b *Builder) Docker() *Builder {
	b.docker = true
	return b
}

// Config changes the image's config: entry point, command, environment, user,
// working folder, stop signal.
func (b *Builder) Config(change func(*v1.Config)) *Builder {
	change(&b.config.Config)
	return b
}

// Platform says which machine the image is for.
func (b *Builder) Platform(os, architecture string) *Builder {
	b.config.OS, b.config.Architecture = os, architecture
	return b
}

// Program compiles the Go program with that source, which uses the standard
// library only, to a static one at a path, mode 0755.
func (b *Builder) Program(at, source string) *Builder {
	return b.late(at, func() ([]byte, error) { return compile(source) })
}

// Package compiles the Go program in a folder of this module, or by its import
// path, likewise.
func (b *Builder) Package(at, dir string) *Builder {
	return b.late(at, func() ([]byte, error) { return compilePackage(dir) })
}

func (b *Builder) late(at string, f func() ([]byte, error)) *Builder {
	b.top().entries = append(b.top().entries, entry{header: tar.Header{Typeflag: tar.TypeReg, Name: inside(at), Mode: 0o755}, make: f})
	return b
}

// File adds a file of root's.
func (b *Builder) File(at, content string, mode int64) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeReg, Name: inside(at), Mode: mode}, []byte(content))
}

// Dir adds a folder of root's.
func (b *Builder) Dir(at string, mode int64) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeDir, Name: inside(at) + "/", Mode: mode}, nil)
}

// Symlink adds a link that says target.
func (b *Builder) Symlink(at, target string) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeSymlink, Name: inside(at), Linkname: target, Mode: 0o777}, nil)
}

// Device adds a device node, of kind tar.TypeChar or tar.TypeBlock.
func (b *Builder) Device(at string, kind byte, major, minor int64) *Builder {
	return b.Entry(tar.Header{Typeflag: kind, Name: inside(at), Mode: 0o666, Devmajor: major, Devminor: minor}, nil)
}

// Whiteout takes away what a layer below has at a path.
func (b *Builder) Whiteout(at string) *Builder {
	return b.File(path.Join(path.Dir(at), ".wh."+path.Base(at)), "", 0)
}

// Opaque hides everything that the layers below have in a folder.
func (b *Builder) Opaque(dir string) *Builder {
	return b.File(path.Join(dir, ".wh..wh..opq"), "", 0)
}

// Files adds n empty files to a folder.
func (b *Builder) Files(dir string, n int) *Builder {
	for i := range n {
		b.File(fmt.Sprintf("%s/%d", dir, i), "", 0o644)
	}
	return b
}

// Entry adds any entry as it is; the header's size is the content's.
func (b *Builder) Entry(header tar.Header, content []byte) *Builder {
	b.top().entries = append(b.top().entries, entry{header: header, content: content})
	return b
}

func (b *Builder) top() *layer { return b.layers[len(b.layers)-1] }

// inside is a path as tars of images have it.
func inside(at string) string { return strings.TrimPrefix(path.Clean("/"+at), "/") }
