// Package image has the image that Kubernetes VMs boot: an operator's own folder, or an OCI artifact or a flist that it
// fetches. On the bus it is node.VMImages.
//
// An artifact is an OCI image manifest of type Type, whose layers are the image's files, each with its name as the
// annotation org.opencontainers.image.title. A flist (pkg/flist) has the image's files at its root, as blocks in stores. The
// folder of what is fetched (Shelf) holds
//
//	sha256-HEX/         a whole version, by the digest of its manifest, or of the flist: files that never change, and image.json
//	current.json        the tag or the flist that was looked at last, and the version that it led to
//	.fetch-HEX/         a version that is being fetched: whole files, those that are being read (.part-NAME), image.json last
//	.old-HEX/           what is being removed
//
// Everything in it can be fetched again. Nothing of it is in a pool, or counts for a user.
//
// One goroutine (Images.Run) asks where the source leads, fetches, and removes old versions; Current and Status never wait
// for it. An artifact and a flist are two kinds of origin, which differ in what they ask; all else is the same for both.
// A version goes when a newer one is whole, no VM has its files, and none was about to be booted with them for an hour.
// Nothing that comes from elsewhere is trusted: sizes are bounded before and while they are read, and each file is
// checked by its digest before it gets its name.
package image
