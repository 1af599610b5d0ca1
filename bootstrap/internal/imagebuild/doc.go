// Package imagebuild has what the builders of croft's images share: Debian's packages, which are only unpacked, and the
// libraries that their programs need; kernels and their modules; croft's own programs; the root folder, its squashfs and its
// bill of materials; and the cache of what builds can use again. All of it makes the same bytes of the same inputs.
//
// It writes to the folders that it is given, and to nothing else but apt's lists of packages.
package imagebuild
