// Package s3 keeps objects in buckets of S3 servers, below a prefix:
//
//	PREFIX/.machine    the machine that the prefix belongs to
//	PREFIX/KIND/KEY    an object, with its frame
//
// It asks the servers that the operator names, over TLS unless the operator says otherwise, and follows no redirect. A server may
// hang, lie and send anything: each call has a deadline, tries a few times only, reads no more than an object may have, and
// passes on nothing that isn't the object that was asked for. Errors repeat of an answer its status and the code of its error
// alone. The keys are package secret's.
package s3
