// Package nodeimage describes the boot image of a node: its manifest, and the manifest's signature. The builder writes it; stage 1
// checks it before it runs anything of the root file system; init checks it before it installs another image.
//
// Whoever has checked a manifest has checked the image: it has the sums of the kernel and of the initrd, and the root hash of the root
// file system, of which the kernel checks each block when it reads it (package verity). It has the sum of the SBOM too, which is no
// part of the image: whoever has image.json can check a copy of sbom.json.
package nodeimage
