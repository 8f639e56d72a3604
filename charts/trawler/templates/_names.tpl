{{/* Names and labels. Every name begins with the release's full name; cluster-wide ones with its namespace. */}}

{{- define "trawler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* At most 40 characters: names of Jobs, pods and Services are made from it, and a Service's has 63. */}}
{{- define "trawler.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "trawler.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "trawler.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "trawler.instance" -}}
{{- if and .Values.redis.external.url (not .Values.instance) }}
{{- fail "\n\ninstance: needed with redis.external.url, since other instances may use that Redis: give a name that none of them has, and never change it.\n" }}
{{- end }}
{{- default (include "trawler.fullname" .) .Values.instance }}
{{- end }}

{{/* Names the release for the whole cluster. With a colon, which neither part can hold: "a-b" and "c" is not "a" and "b-c". */}}
{{- define "trawler.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "trawler.fullname" .) }}
{{- end }}

{{- define "trawler.redisName" -}}
{{- include "trawler.fullname" . }}-redis
{{- end }}

{{- define "trawler.crawlerName" -}}
{{- include "trawler.fullname" . }}-crawler
{{- end }}

{{- define "trawler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "trawler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trawler.labels" -}}
{{- $own := fromYaml (include "trawler.ownLabels" .) }}
{{- toYaml (mustMergeOverwrite (deepCopy .Values.commonLabels) $own) }}
{{- end }}

{{- define "trawler.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "trawler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trawler
{{- end }}

{{/* Labels of an object with some of the user's own: (list context labels). Ours win. */}}
{{- define "trawler.labelsWith" -}}
{{- toYaml (mustMergeOverwrite (deepCopy (index . 1)) (fromYaml (include "trawler.labels" (index . 0)))) }}
{{- end }}

{{/* Labels of a pod: (list context component labels). Nothing in them changes with the version, or an upgrade would restart Redis. */}}
{{- define "trawler.podLabels" -}}
{{- $own := fromYaml (include "trawler.selectorLabels" (index . 0)) }}
{{- $_ := set $own "app.kubernetes.io/component" (index . 1) }}
{{- toYaml (mustMergeOverwrite (deepCopy (index . 0).Values.commonLabels) (deepCopy (index . 2)) $own) }}
{{- end }}
