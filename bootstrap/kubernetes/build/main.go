// Command build makes the image of croft's Kubernetes nodes: a folder that pkg/vmimage describes, with Debian's cloud
// kernel, an initrd, a squashfs root file system, and sbom.json, which lists all that is in it (CycloneDX). It runs in
// the root folder of croft's source:
//
//	build -out FOLDER [-parts FOLDER] [-version VERSION] [-cache FOLDER]
//
// The root file system has Debian packages' files with the libraries that they need, Kubernetes and its company, which
// are compiled from the modules in ../parts, the first process (../init) and the image of the pause container
// (../pause). Debian packages are only unpacked, never installed here.
//
// It owns the cache folder, and keeps there by content: packages by the hash of the package's file; the squashfs by the
// hash of all paths, modes and contents in it; compiled parts. What the last build didn't use is removed. Go's build
// cache has the rest. The folder of the image is changed at the end only: a build that fails leaves the old image.
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
	flag.StringVar(&c.out, "out", "", "folder of the image")
	flag.StringVar(&c.parts, "parts", "", "folder with parts that this machine has compiled already; empty: they are compiled")
	flag.StringVar(&c.version, "version", "dev", "version of croft")
	flag.StringVar(&c.cache, "cache", imagebuild.CacheFolder("croft-kubernetes"), "folder of the cache")
	flag.Parse()
	if c.out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: build -out FOLDER [-parts FOLDER] [-version VERSION] [-cache FOLDER]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := build(ctx, c, imagebuild.NewProgress(os.Stdout, "kubernetes-image"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-image:", err)
		os.Exit(1)
	}
}
