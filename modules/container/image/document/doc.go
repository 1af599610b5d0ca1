// Package document parses an image's JSON documents: manifests, indexes,
// configs, and the list of docker save. It keeps only the members croft uses,
// counts entries while it reads them, and takes no memory for skipped ones, so
// that no document of MostBytes takes more than a few times its size. It knows no
// disk and no network.
package document
