// Command build makes the boot image of a croft node: a folder that internal/nodeimage describes, with Debian's kernel, an initrd, a
// squashfs root file system with dm-verity's hash tree, the media that machines boot from, and sbom.json, which lists all that is in it
// (CycloneDX). It runs in the root folder of croft's source:
//
//	build -out FOLDER [-version VERSION] [-commit COMMIT] [-kernel 6.12] [-sign KEYFILE] [-level LEVEL] [-cache FOLDER]
//
// The root file system has Debian packages' files with the libraries that they need, the kernel's modules, croft's programs and the first
// process (../init). Debian packages are only unpacked, never installed here. KEYFILE has an ed25519 key as base64 of its 32 bytes; without
// it the image isn't signed, and machines take any.
//
// It owns the cache folder, and keeps there by content: packages by the hash of the package's file; the squashfs by the hash of all paths,
// modes and contents in it. What the last build didn't use is removed. The folder of the image is changed at the end only: a build that
// fails leaves the old image.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

func main() {
	c := config{source: ".", run: imagebuild.Run}
	var key, kernel string
	flag.StringVar(&c.out, "out", "", "folder of the image")
	flag.StringVar(&c.version, "version", "dev", "version of croft")
	flag.StringVar(&c.commit, "commit", "unknown", "commit of croft")
	flag.StringVar(&kernel, "kernel", "", "6.12: that newer kernel of Debian's, for newer machines; empty: the release's own")
	flag.StringVar(&key, "sign", "", "file with the private key that signs the image; empty: it isn't signed")
	flag.IntVar(&c.level, "level", squashfsLevel, "level of zstd for the root file system, 1 to 22: 9 packs in a tenth of the time, for 7 MB")
	flag.StringVar(&c.cache, "cache", imagebuild.CacheFolder("croft-node"), "folder of the cache")
	flag.Parse()
	if c.out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: build -out FOLDER [-version VERSION] [-commit COMMIT] [-kernel 6.12] [-sign KEYFILE] [-level LEVEL] [-cache FOLDER]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.choose(kernel, key)
	if err == nil {
		err = build(ctx, c, imagebuild.NewProgress(os.Stdout, "node-image"))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node-image:", err)
		os.Exit(1)
	}
}
