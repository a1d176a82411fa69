/* The index of a model whose tensors are spread over several .safetensors files, its shards: a JSON document, by
 * convention model.safetensors.index.json, with an object weight_map from the name of each tensor to its shard, a file
 * in the index's folder. Other fields are not read. */
#ifndef CLATTN_TOOLS_SAFETENSORS_INDEX_H
#define CLATTN_TOOLS_SAFETENSORS_INDEX_H

#include <stddef.h>

#include "failure.h"
#include "safetensors.h"

#define SAFETENSORS_INDEX_SUFFIX ".index.json"

struct safetensors_place {
    const char *tensor, *shard; /* owned by the index */
};

struct safetensors_index {
    const char *path; /* the caller's */
    char *text;       /* where the names are */
    size_t n_places;
    struct safetensors_place *places; /* by shard, then by tensor */
};

/* The caller ends with safetensors_index_close; on failure there is nothing to close. `path` must stay valid. */
int safetensors_index_open(const char *path, struct safetensors_index *index, struct failure *failure);
void safetensors_index_close(struct safetensors_index *index);

/* Shard i, in the order of their names: opens it, and checks that it has the tensors that the index says. *path, which
 * file->path is, and the file are the caller's to free and close. 1: there is no such shard. */
int safetensors_index_shard(const struct safetensors_index *index, size_t i, char **path, struct safetensors *file,
                            struct failure *failure);

#endif
