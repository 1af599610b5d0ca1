package media

import (
	"context"
	"fmt"
	"strconv"
)

// fat is a FAT file system in a file, from a sector on.
type fat struct {
	builder *builder
	file    string
	start   uint64
}

// format makes the file system: bits is the kind, 12, 16 or 32.
func (f fat) format(ctx context.Context, sectors uint64, bits int, label, serial string) error {
	start := strconv.FormatUint(f.start, 10)
	args := []string{"-F", strconv.Itoa(bits), "-n", label, "-i", serial, "--invariant", "-h", start, "--offset", start}
	if bits == 16 { // a small one has clusters enough only if they are small
		args = append(args, "-s", "1")
	}
	return f.builder.tool(ctx, "mkfs.vfat", append(args, f.file, strconv.FormatUint(sectors/2, 10))...)
}

func (f fat) image() string { return fmt.Sprintf("%s@@%d", f.file, f.start*512) }

// folders makes folders, those that others lie in first.
func (f fat) folders(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		if err := f.builder.tool(ctx, "mmd", "-i", f.image(), "::"+path); err != nil {
			return err
		}
	}
	return nil
}

// add copies files into a folder, one after the other, so that their order is the same every time.
func (f fat) add(ctx context.Context, folder string, files ...file) error {
	for _, one := range files {
		if err := f.builder.tool(ctx, "mcopy", "-i", f.image(), one.from, "::"+folder+"/"+one.name); err != nil {
			return err
		}
	}
	return nil
}
