package main

import (
	"context"

	"github.com/croft-edge/croft/bootstrap/node/media"
)

// kernelArguments are the image's own: a kernel that panics starts again, so that the trial of an image that can't boot ends, and ciphers aren't
// tested at each boot.
const kernelArguments = "quiet panic=10 cryptomgr.notests"

// makeMedia makes what machines boot from, of the image in a folder and into it: croft.iso, croft.img and boot.ipxe.
func makeMedia(ctx context.Context, folder string) error {
	return media.Build(ctx, media.Config{Folder: folder, Arguments: kernelArguments})
}
